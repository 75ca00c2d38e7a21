// Makes the place for the search of the documentation (search.js, which nodes have, too) in the site's header.
(() => {
  const element = (name, set, ...inner) => {
    const made = Object.assign(document.createElement(name), set);
    made.append(...inner);
    return made;
  };
  const asked = element("input", {
    id: "asked", type: "search", autocomplete: "off", placeholder: "Search", ariaLabel: "Search the documentation",
  });
  asked.dataset.index = new URL("search.json", document.currentScript.src).href;
  const form = element("form", { id: "search", hidden: true }, asked);
  const results = element("section", { id: "results", hidden: true, ariaLabel: "Found" },
    element("p", { id: "told", role: "status" }), element("ol", { id: "found" }));
  form.append(results);
  document.querySelector(".md-header__inner").append(form);
})();
