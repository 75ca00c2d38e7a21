/** Starts the page: session, changes, keys, the frame around the pages, and the first page. */

import "./components/frame.js";
import { startChanges } from "./core/changes.js";
import { startKeys } from "./core/keys.js";
import { startRouter } from "./core/router.js";
import { ROUTES } from "./core/routes.js";
import { session } from "./core/session.js";
import { NowherePage } from "./pages/nowhere.js";

await session.start();
startChanges(() => session.who);
startKeys();
await startRouter(document.getElementById("main"), ROUTES, NowherePage);
