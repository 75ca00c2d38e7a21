/** Addresses to pages: one page at a time. */

const TRIES = 60; // frames in which a page that was left may become as long as it was

let outlet = null;
let routesOf = []; // routes
let Nowhere = null;
let page = null;
let current = null; // {path, route}
let turn = 0;
const watchers = new Set();

/** Returns the route of a path and its parameters, or null. */
export function match(path, routes = routesOf) {
  const parts = partsOf(path);
  for (const route of routes) {
    const names = partsOf(route.path);
    if (names.length !== parts.length) continue;
    const params = {};
    const fits = names.every((part, at) => {
      if (!part.startsWith(":")) return part === parts[at];
      try {
        params[part.slice(1)] = decodeURIComponent(parts[at]);
      } catch {
        return false;
      }
      return true;
    });
    if (fits) return { route, params };
  }
  return null;
}

function partsOf(path) {
  return path.split("/").filter(Boolean);
}

/**
 * Shows the page of the address in an element, and follows links and the history from then on.
 *
 * @param {typeof Page} nowhere current at an address that is none
 */
export function startRouter(element, routes, nowhere) {
  outlet = element;
  routesOf = routes;
  Nowhere = nowhere;
  history.scrollRestoration = "manual";
  document.addEventListener("click", followLink);
  addEventListener("popstate", (event) => show(event.state?.scroll ?? 0, true));
  return show(history.state?.scroll ?? 0, false);
}

/** Calls a function with the route and the path of each page that is current. */
export function onShown(listener) {
  watchers.add(listener);
}

/** Goes to a path of this page: "/ui/jobs?state=NEW". */
export function navigate(path, { replace = false } = {}) {
  keepScroll();
  const from = location.pathname + location.search;
  if (replace || path === from) history.replaceState({}, "", path);
  else history.pushState({ from }, "", path);
  return outlet && show(0, true);
}

/** Returns the properties of a link. */
export function link(path) {
  return { href: path, "aria-current": path === location.pathname ? "page" : null };
}

/** Changes the query of the address, without a step in the history. */
export function replaceQuery(query) {
  const text = query.toString();
  history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : ""));
}

function keepScroll() {
  history.replaceState({ ...history.state, scroll: scrollY }, "", location.href);
}

function followLink(event) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || anchor.hasAttribute("target") || anchor.hasAttribute("download")) return;
  const url = new URL(anchor.getAttribute("href"), location.href); // .href of a link in SVG is an object
  if (url.origin !== location.origin || !match(url.pathname)) return;
  if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
  event.preventDefault();
  navigate(url.pathname + url.search + url.hash);
}

async function show(scroll, moved) {
  const mine = ++turn;
  const path = location.pathname;
  const query = new URLSearchParams(location.search);
  if (page && current?.path === path) {
    page.query = query;
    page.queryChanged();
    return;
  }
  if (page && !(await page.mayLeave())) {
    if (mine === turn) history.pushState({}, "", current.address);
    return;
  }
  const found = match(path);
  if (mine !== turn) return;
  const made = new (found?.route.page ?? Nowhere)();
  made.params = found?.params ?? {};
  made.query = query;
  page = made;
  current = { path, route: found?.route ?? null, address: location.pathname + location.search };
  document.title = `${found?.route.title ?? "Not found"} · raftsched`;
  outlet.replaceChildren(made);
  for (const listener of watchers) listener(current.route, path);
  if (moved) outlet.focus({ preventScroll: true });
  restore(scroll, mine);
}

function restore(scroll, mine, left = TRIES) {
  if (mine !== turn) return;
  scrollTo(0, scroll);
  if (scrollY < scroll && left) requestAnimationFrame(() => restore(scroll, mine, left - 1));
}
