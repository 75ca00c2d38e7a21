/** The addresses of the pages. `section` is the link of the menu that is marked; `keys` goes there ("g" and then it). */

import { AuditPage } from "../pages/audit.js";
import { CalendarPage, CalendarsPage } from "../pages/calendars.js";
import { ClusterPage } from "../pages/cluster.js";
import { ComparePage } from "../pages/compare.js";
import { CrontabPage } from "../pages/crontab.js";
import { DeadLettersPage } from "../pages/dead-letters.js";
import { EditorPage } from "../pages/editor.js";
import { JobPage } from "../pages/job.js";
import { JobsPage } from "../pages/jobs.js";
import { NamespacePage, NamespacesPage } from "../pages/namespaces.js";
import { OperationsPage } from "../pages/operations.js";
import { OverviewPage } from "../pages/overview.js";
import { PreviewPage } from "../pages/preview.js";
import { QueuePage, QueuesPage } from "../pages/queues.js";
import { RunPage } from "../pages/run.js";
import { RunsPage } from "../pages/runs.js";
import { SettingsPage } from "../pages/settings.js";
import { SignInPage } from "../pages/sign-in.js";
import { TokensPage } from "../pages/tokens.js";
import { WebhookPage, WebhooksPage } from "../pages/webhooks.js";
import { WorkflowPage } from "../pages/workflow.js";
import { WorkflowsPage } from "../pages/workflows.js";

export const ROUTES = [
  { path: "/ui", title: "Overview", section: "overview", keys: "o", page: OverviewPage },
  { path: "/ui/jobs", title: "Jobs", section: "jobs", keys: "j", page: JobsPage },
  { path: "/ui/jobs/new", title: "New job", section: "jobs", keys: "n", page: EditorPage },
  { path: "/ui/jobs/:id", title: "Job", section: "jobs", page: JobPage },
  { path: "/ui/jobs/:id/edit", title: "Edit job", section: "jobs", page: EditorPage },
  { path: "/ui/runs", title: "Runs", section: "runs", keys: "r", page: RunsPage },
  { path: "/ui/runs/:id", title: "Run", section: "runs", page: RunPage },
  { path: "/ui/compare", title: "Compare runs", section: "runs", page: ComparePage },
  { path: "/ui/workflows", title: "Workflows", section: "workflows", keys: "w", page: WorkflowsPage },
  { path: "/ui/workflows/:id", title: "Workflow", section: "workflows", page: WorkflowPage },
  { path: "/ui/dead-letters", title: "Dead letters", section: "dead-letters", keys: "d", page: DeadLettersPage },
  { path: "/ui/queues", title: "Queues", section: "queues", keys: "q", page: QueuesPage },
  { path: "/ui/queues/:name", title: "Queue", section: "queues", page: QueuePage },
  { path: "/ui/calendars", title: "Calendars", section: "calendars", page: CalendarsPage },
  { path: "/ui/calendars/:name", title: "Calendar", section: "calendars", page: CalendarPage },
  { path: "/ui/namespaces", title: "Namespaces", section: "namespaces", page: NamespacesPage },
  { path: "/ui/namespaces/:name", title: "Namespace", section: "namespaces", page: NamespacePage },
  { path: "/ui/webhooks", title: "Webhooks", section: "webhooks", page: WebhooksPage },
  { path: "/ui/webhooks/:name", title: "Webhook", section: "webhooks", page: WebhookPage },
  { path: "/ui/operations", title: "Operations", section: "operations", page: OperationsPage },
  { path: "/ui/audit", title: "Audit", section: "audit", keys: "a", page: AuditPage },
  { path: "/ui/tokens", title: "Tokens", section: "tokens", keys: "t", page: TokensPage },
  { path: "/ui/cluster", title: "Cluster", section: "cluster", keys: "c", page: ClusterPage },
  { path: "/ui/cluster/settings", title: "Settings", section: "cluster", keys: "s", page: SettingsPage },
  { path: "/ui/preview", title: "Preview", section: "preview", keys: "p", page: PreviewPage },
  { path: "/ui/crontab", title: "From a crontab", section: "jobs", page: CrontabPage },
  { path: "/ui/sign-in", title: "Sign in", section: "", page: SignInPage },
];
