/** The first page: how the cluster is, at a glance. */

import { heading } from "../components/basics.js";
import { Page, define } from "../core/element.js";

export default class OverviewPage extends Page {
  render() {
    return [heading("Overview")];
  }
}
define("rs-overview-page", OverviewPage);
