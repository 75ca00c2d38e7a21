/** Starts the page: session, changes, keys, the frame around the pages, and the first page. */

import "./components/frame.js";
import * as changes from "./core/changes.js";
import * as keys from "./core/keys.js";
import * as router from "./core/router.js";
import { ROUTES } from "./core/routes.js";
import { session } from "./core/session.js";
import { FailedPage as failed } from "./pages/failed.js";
import { NowherePage as nowhere } from "./pages/nowhere.js";

router.match(location.pathname)?.route.load().catch(() => {}); // its files come while the session is asked for
await session.start();
changes.start(() => session.who);
keys.start();
await router.start(document.getElementById("main"), { nowhere, failed });
// A page that is visited later must not need the node that this one came from.
(window.requestIdleCallback ?? setTimeout)(() => ROUTES.forEach((route) => route.load().catch(() => {})));
