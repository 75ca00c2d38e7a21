// The search of the documentation. Every word is looked for by its stem, the last one also by its beginning.
(() => {
  const SHOWN = 20; // results
  const EXCERPT = 180; // characters
  const TITLE = 8; // what a word counts in the title of a page,
  const HEADING = 5; // and in a heading; in the text as often as it is there, by its logarithm
  const EXACTLY = 1000; // what a heading counts that is what was asked for
  const SMALL = new Set("a an and are as at be but by can do does for from get has have how i if in into is it me my no not of on or so that the there this to use using what when where which who why will with you your".split(" "));
  const $ = (id) => document.getElementById(id);
  const element = (name, set, ...inner) => {
    const made = Object.assign(document.createElement(name), set);
    made.append(...inner);
    return made;
  };

  // Returns the words of a text by their stems, so that "retry", "retries" and "retried" are one.
  const words = (text) => (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).map(stem);
  const stem = (word) =>
    word.length < 4 ? word : word.replace(/ss$/, "sS").replace(/ies$|ied$/, "y").replace(/(?:ing|ed|es|s|e)$/, "").toLowerCase();
  const count = (map, key, by) => map.set(key, (map.get(key) ?? 0) + by);

  const base = () => new URL($("asked").dataset.index, location.href); // addresses are relative to the index
  let ready;
  const load = () => (ready ??= fetch(base()).then((answer) => {
    if (!answer.ok) throw new Error(`the node answered ${answer.status}`);
    return answer.json();
  }).then(prepare).catch((error) => {
    ready = undefined;
    throw error;
  }));

  // Returns the index by words: stem -> section -> weight.
  function prepare({ sections, words: phrases }) {
    const by = new Map();
    sections.forEach(([, title, heading, text], at) => {
      const found = new Map();
      for (const word of words(text)) count(found, word, 1);
      for (const [word, times] of found) found.set(word, 1 + Math.log(times));
      for (const word of new Set(words(heading))) count(found, word, HEADING);
      for (const word of new Set(words(title))) count(found, word, heading ? 1.5 : TITLE);
      for (const [word, weight] of found) {
        if (!by.has(word)) by.set(word, new Map());
        by.get(word).set(at, weight);
      }
    });
    return { sections, by, stems: [...by.keys()], phrases: phrases.map(([phrase, ...place]) => [words(phrase), ...place]) };
  }

  function asks(query) {
    const all = words(query);
    const telling = (query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !SMALL.has(word)).map(stem);
    return telling.length ? telling : all;
  }

  // Returns the sections that a query finds, the best first, as [address, page, heading, text].
  function search({ sections, by, stems, phrases }, query) {
    const asked = asks(query);
    const scores = new Map();
    const hits = new Map();
    asked.forEach((word, place) => {
      const last = place === asked.length - 1 && word.length > 2; // it may not be typed to its end
      const best = new Map();
      for (const one of last ? stems.filter((one) => one.startsWith(word)) : by.has(word) ? [word] : []) {
        const rare = Math.log(1 + sections.length / by.get(one).size) * (one === word ? 1 : 0.5);
        for (const [at, weight] of by.get(one)) best.set(at, Math.max(best.get(at) ?? 0, weight * rare));
      }
      for (const [at, score] of best) {
        count(scores, at, score);
        count(hits, at, 1);
      }
    });
    const ranked = [...scores].map(([at, score]) => {
      const [, title, heading, , weight] = sections[at];
      const exactly = words(heading || title).join(" ") === asked.join(" ");
      return [exactly ? EXACTLY + weight : score * weight * (hits.get(at) / asked.length) ** 3, at];
    });
    ranked.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    const led = [];
    const text = asked.join(" ");
    const exact = words(query).join(" ");
    for (const [phrase, address, page] of phrases) {
      const telling = phrase.filter((word) => !SMALL.has(word));
      const said = telling.filter((word) => asked.includes(word)).length;
      const begun = text.length > 2 && phrase.join(" ").startsWith(text);
      if ((said && said === telling.length) || begun) led.push([said + (phrase.join(" ") === exact ? EXACTLY : 0), address, page, phrase.length]);
    }
    led.sort((a, b) => b[0] - a[0] || a[3] - b[3]);
    const whole = new Map(sections.map((section) => [section[0], section]));
    const found = new Map();
    for (const [, address, page] of led) found.set(address, whole.get(address) ?? [address, page, "", ""]);
    for (const [, at] of ranked) found.set(sections[at][0], found.get(sections[at][0]) ?? sections[at]);
    return [...found.values()].slice(0, SHOWN);
  }

  // Returns the part of the text where the words are, as nodes; words are marked.
  function excerpt(text, asked) {
    const parts = text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) ?? [];
    const is = (part) => asked.some((word) => stem(part.toLowerCase()).startsWith(word));
    const first = Math.max(0, parts.findIndex(is) - 12);
    const nodes = first ? ["… "] : [];
    let length = 0;
    for (const part of parts.slice(first)) {
      nodes.push(is(part) ? element("mark", {}, part) : part);
      length += part.length;
      if (length > EXCERPT) return [...nodes, " …"];
    }
    return nodes;
  }

  async function show() {
    const query = $("asked").value.trim();
    $("results").hidden = !query;
    if (!query) return;
    let found = [];
    try {
      found = search(await load(), query);
      $("told").textContent = found.length ? `Found for “${query}”:` : `Nothing is found for “${query}”.`;
    } catch (error) {
      $("told").textContent = `The search does not work now: ${error.message}.`;
    }
    if ($("asked").value.trim() !== query) return; // more was typed meanwhile
    const asked = asks(query);
    $("found").replaceChildren(...found.map(([address, page, heading, text]) => element("li", {},
      element("a", { href: new URL(address, base()).href }, heading ? `${page} › ${heading}` : page),
      element("p", {}, ...excerpt(text, asked)))));
    $("found").dataset.query = query;
  }

  function begin() {
    $("search").hidden = false;
    $("asked").addEventListener("input", show);
    $("asked").addEventListener("focus", () => load().catch(() => {}), { once: true });
    $("search").addEventListener("submit", (event) => {
      event.preventDefault();
      $("found").querySelector("a")?.click();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.closest("input, textarea") && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        $("asked").focus();
      } else if (event.key === "Escape" && event.target.id === "asked") {
        event.target.value = "";
        show();
      }
    });
    $("results").addEventListener("click", ({ target }) => {
      if (target.closest("a")?.pathname === location.pathname) $("results").hidden = true;
    });
  }

  begin();
})();
