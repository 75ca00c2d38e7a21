// What of the page's text one cannot read: cut without an ellipsis and a title, or beyond its box or the window.
() => {
  const LOOSE = 1; // px by which browsers round
  const BOXES = ".card, button, .button, .badge, .tile, .node, td, th, dd, [role=gridcell], #menu, #top, dialog";
  const SCROLLS = "pre, .code, .json, .output-view, .menu-scrolls"; // what is meant to be scrolled
  const width = document.documentElement.clientWidth;
  const found = new Set();
  const isTitled = (element) => {
    for (let one = element; one && one !== document.body; one = one.parentElement) if (one.title) return true;
    return Boolean(element.querySelector("[title]"));
  };
  const named = (one) => [one.localName, ...one.classList].join(".");
  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, noscript, title, option, .sr, .skip, #announcements, .output-view")) continue;
    if (!parent.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    range.selectNodeContents(node);
    const lines = [...range.getClientRects()].filter((line) => line.width && line.height);
    if (!lines.length) continue;
    const text = {
      left: Math.min(...lines.map((line) => line.left)),
      right: Math.max(...lines.map((line) => line.right)),
      bottom: Math.max(...lines.map((line) => line.bottom)),
    };
    const beyond = ({ left, right }) => Math.max(text.right - right, left - text.left);
    const say = (what) => found.add(`${what}: "${node.data.trim().slice(0, 40)}" in ${named(parent)}`);
    let isCut = false; // some box hides what is beyond it
    for (let box = parent; box !== document.body && !isCut; box = box.parentElement) {
      if (box instanceof SVGElement && box.localName !== "svg") continue;
      const style = getComputedStyle(box);
      const edge = box.getBoundingClientRect();
      const over = Math.round(beyond(edge));
      const hides = style.overflowX !== "visible";
      isCut = hides && !box.matches("svg") && over > LOOSE;
      if (isCut && box.matches(SCROLLS)) break;
      if (isCut && style.textOverflow === "ellipsis") {
        if (!isTitled(box)) say("cut without a title");
      } else if (isCut) {
        say(`cut by ${over} px of ${named(box)}`);
      } else if (hides && style.overflowY === "hidden" && text.bottom > edge.bottom + 2 * LOOSE) {
        say(`cut below ${named(box)}`);
      } else if (box.matches(BOXES) && over > LOOSE) {
        say(`${over} px beyond ${named(box)}`);
        break;
      }
      if (style.position === "fixed") break;
    }
    if (!isCut && beyond({ left: 0, right: width }) > LOOSE) say("beyond the window");
  }
  return [...found];
}
