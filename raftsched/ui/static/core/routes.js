/** The addresses of the pages. `section` is the link of the menu that is marked; `keys` goes there ("g" and then it). */

// Some modules hold two pages: a list and one of it.
const part = (loaded, name) => loaded.then((module) => ({ default: module[name] }));

export const ROUTES = [
  { path: "/ui", title: "Overview", section: "overview", keys: "o", load: () => import("../pages/overview.js") },
  { path: "/ui/jobs", title: "Jobs", section: "jobs", keys: "j", load: () => import("../pages/jobs.js") },
  { path: "/ui/jobs/new", title: "New job", section: "jobs", keys: "n", load: () => import("../pages/editor.js") },
  { path: "/ui/jobs/:id", title: "Job", section: "jobs", load: () => import("../pages/job.js") },
  { path: "/ui/jobs/:id/edit", title: "Edit job", section: "jobs", load: () => import("../pages/editor.js") },
  { path: "/ui/runs", title: "Runs", section: "runs", keys: "r", load: () => import("../pages/runs.js") },
  { path: "/ui/runs/:id", title: "Run", section: "runs", load: () => import("../pages/run.js") },
  {
    path: "/ui/dead-letters",
    title: "Dead letters",
    section: "dead-letters",
    keys: "d",
    load: () => import("../pages/dead-letters.js"),
  },
  { path: "/ui/queues", title: "Queues", section: "queues", keys: "q", load: () => import("../pages/queues.js") },
  {
    path: "/ui/queues/:name",
    title: "Queue",
    section: "queues",
    load: () => part(import("../pages/queues.js"), "QueuePage"),
  },
  { path: "/ui/calendars", title: "Calendars", section: "calendars", load: () => import("../pages/calendars.js") },
  {
    path: "/ui/calendars/:name",
    title: "Calendar",
    section: "calendars",
    load: () => part(import("../pages/calendars.js"), "CalendarPage"),
  },
  { path: "/ui/namespaces", title: "Namespaces", section: "namespaces", load: () => import("../pages/namespaces.js") },
  {
    path: "/ui/namespaces/:name",
    title: "Namespace",
    section: "namespaces",
    load: () => part(import("../pages/namespaces.js"), "NamespacePage"),
  },
  { path: "/ui/webhooks", title: "Webhooks", section: "webhooks", load: () => import("../pages/webhooks.js") },
  {
    path: "/ui/webhooks/:name",
    title: "Webhook",
    section: "webhooks",
    load: () => part(import("../pages/webhooks.js"), "WebhookPage"),
  },
  { path: "/ui/operations", title: "Operations", section: "operations", load: () => import("../pages/operations.js") },
  { path: "/ui/audit", title: "Audit", section: "audit", keys: "a", load: () => import("../pages/audit.js") },
  { path: "/ui/tokens", title: "Tokens", section: "tokens", keys: "t", load: () => import("../pages/tokens.js") },
  { path: "/ui/cluster", title: "Cluster", section: "cluster", keys: "c", load: () => import("../pages/cluster.js") },
  {
    path: "/ui/cluster/settings",
    title: "Settings",
    section: "cluster",
    keys: "s",
    load: () => import("../pages/settings.js"),
  },
  { path: "/ui/preview", title: "Preview", section: "preview", keys: "p", load: () => import("../pages/preview.js") },
  { path: "/ui/crontab", title: "From a crontab", section: "jobs", load: () => import("../pages/crontab.js") },
  { path: "/ui/sign-in", title: "Sign in", section: "", load: () => import("../pages/sign-in.js") },
];
