/** The keyboard in a chart with many points: Tab goes to one of them, arrows go from one to the next. */

const BY = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

/** Moves the focus between the links of a chart; a listener of "keydown". */
export function moveFocus(event) {
  const links = [...event.currentTarget.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const to = { Home: 0, End: links.length - 1 }[event.key] ?? (BY[event.key] ? at + BY[event.key] : -1);
  if (at < 0 || !links[to]) return;
  event.preventDefault();
  links[at].setAttribute("tabindex", "-1");
  links[to].setAttribute("tabindex", "0");
  links[to].focus();
}
