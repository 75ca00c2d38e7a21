// What makes the documentation easier to read; all is there without it.
(() => {
  const element = (name, set, ...inner) => {
    const made = Object.assign(document.createElement(name), set);
    made.append(...inner);
    return made;
  };
  const all = (selector) => document.querySelectorAll(selector);

  function around(inner, className, ...beside) {
    const made = element("div", { className });
    inner.replaceWith(made);
    made.append(inner, ...beside);
  }

  function copyButton(block) {
    const button = element("button", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    return button;
  }

  document.documentElement.classList.add("js");
  document.getElementById("menu-button").addEventListener("click", ({ currentTarget }) => {
    currentTarget.setAttribute("aria-expanded", String(currentTarget.getAttribute("aria-expanded") !== "true"));
  });
  for (const heading of all("article :is(h2, h3)[id]")) {
    heading.append(element("a", { className: "anchor", href: `#${heading.id}`, ariaLabel: `Link to ${heading.textContent}` }, "#"));
  }
  for (const table of all("article table")) around(table, "scroll");
  for (const box of all("article pre, article .scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; // so that keys can scroll it
  }
  if (navigator.clipboard) { // only by https and on loopback
    for (const block of all("article pre")) around(block, "block", copyButton(block));
  }
})();
