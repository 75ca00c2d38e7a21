/**
 * Elements as plain objects, and a container made to show them.
 *
 * `h` describes, `render` changes the document where the description differs from what is there. Elements that stay keep
 * their focus, their scroll and what was typed into them. Text is always text: nothing here parses HTML.
 */

const SVG = "http://www.w3.org/2000/svg";
const PROPS = Symbol("props");
const LISTENERS = Symbol("listeners");
const KEY = Symbol("key");
// What a person changes in an element is compared with the element itself, not with what was rendered before.
const LIVE_PROPS = new Set(["value", "checked", "selected", "indeterminate", "open"]);

/**
 * Returns the description of an element.
 *
 * @param {string} tag
 * @param {object|null} props attributes; `onclick` and such are listeners, `.name` sets a property, `class` may be a list,
 *   `style` is an object, `key` says which of the elements before it is, `ref` is called once with the element.
 * @param {...any} children descriptions, text, numbers, lists of them. null and false hold a place and show nothing; the
 *   children of a list whose length changes need keys.
 */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity), key: props?.key };
}

/** Makes the children of a container those described. */
export function render(described, container) {
  const list = (Array.isArray(described) ? described : [described]).flat(Infinity);
  placeChildren(container, list, container.namespaceURI === SVG && container.localName !== "foreignObject");
}

function placeChildren(parent, described, svg) {
  const keyed = new Map();
  for (let node = parent.firstChild; node; node = node.nextSibling) {
    if (node[KEY] !== undefined) keyed.set(node[KEY], node);
  }
  const wanted = new Set();
  for (const one of described) if (one?.key !== undefined) wanted.add(one.key);
  let at = parent.firstChild;
  for (const one of described) {
    // What goes is taken out first, so that what stays need not be moved: a moved element loses its focus.
    while (at && at[KEY] !== undefined && !wanted.has(at[KEY])) at = removed(at);
    const before = one?.key === undefined ? at : keyed.get(one.key);
    if (before && fits(before, one)) {
      if (before === at) at = at.nextSibling;
      else parent.insertBefore(before, at);
      update(before, one, svg);
    } else {
      const made = create(one, svg);
      parent.insertBefore(made, at);
      if (one?.key === undefined && at && at[KEY] === undefined) at = removed(at);
    }
  }
  while (at) at = removed(at);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function isElement(one) {
  return one !== null && typeof one === "object";
}

function fits(node, one) {
  if (!isElement(one)) return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === one.tag && node[KEY] === one.key;
}

function textOf(one) {
  return one === null || one === undefined || one === false || one === true ? "" : String(one);
}

function create(one, svg) {
  if (!isElement(one)) return document.createTextNode(textOf(one));
  const inside = svg || one.tag === "svg";
  const node = inside ? document.createElementNS(SVG, one.tag) : document.createElement(one.tag);
  if (one.key !== undefined) node[KEY] = one.key;
  node[PROPS] = {};
  update(node, one, inside);
  one.props.ref?.(node);
  return node;
}

function update(node, one, svg) {
  if (!isElement(one)) {
    const text = textOf(one);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node[PROPS] ?? {};
  for (const name in before) if (!(name in one.props)) setProp(node, name, undefined, before[name]);
  for (const name in one.props) {
    if (name !== "value" || one.tag !== "select") setProp(node, name, one.props[name], before[name]);
  }
  node[PROPS] = one.props;
  // A custom element without described children makes its own.
  if (!one.tag.includes("-") || one.children.length) {
    placeChildren(node, one.children, (svg || one.tag === "svg") && one.tag !== "foreignObject");
  }
  if (one.tag === "select" && "value" in one.props) setProp(node, "value", one.props.value);
}

function setProp(node, name, value, before) {
  if (name === "key" || name === "ref") return;
  if (name.startsWith("on")) {
    listen(node, name.slice(2), value);
  } else if (name.startsWith(".")) {
    if (value !== before) node[name.slice(1)] = value;
  } else if (LIVE_PROPS.has(name) && isLive(node, name)) {
    const live = typeof node[name] === "string" ? textOf(value) : (value ?? false);
    if (node[name] !== live) node[name] = live;
  } else if (name === "class") {
    const text = classes(value);
    if (text !== node.getAttribute("class")) node.setAttribute("class", text);
  } else if (name === "style") {
    setStyle(node, value ?? {}, before ?? {});
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else if (value !== before || !node.hasAttribute(name)) {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** The value of an option is that of its attribute, or else its text: "" needs the attribute. */
function isLive(node, name) {
  return node.namespaceURI !== SVG && !(name === "value" && node.localName === "option");
}

function classes(value) {
  if (!Array.isArray(value)) return value ? String(value) : "";
  return value.filter(Boolean).join(" ");
}

function setStyle(node, value, before) {
  for (const name in before) if (!(name in value)) node.style.removeProperty(name);
  for (const name in value) if (value[name] !== before[name]) node.style.setProperty(name, String(value[name]));
}

function listen(node, type, listener) {
  const listeners = (node[LISTENERS] ??= {});
  if (!(type in listeners)) node.addEventListener(type, (event) => listeners[type]?.call(node, event));
  listeners[type] = listener || null;
}
