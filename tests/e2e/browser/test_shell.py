"""What every page has: files of its own only, nothing inline, and the same page at each path below /ui/."""

from __future__ import annotations

import re

from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster


def test_the_shell_has_nothing_inline_and_names_only_its_own_files(cluster: LocalCluster) -> None:
    reply = cluster.nodes[0].request("GET", "/ui/")
    assert reply.status == 200
    html = reply.body.decode()
    assert not re.findall(r"<script(?![^>]*\ssrc=)", html)
    assert not re.findall(r"<style|\sstyle=|\son\w+=|javascript:", html)
    named = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert named
    assert all(re.match(r"#|/(?!/)", name) for name in named), named


def test_opens_without_a_fault(tab: Tab) -> None:
    page = tab.go("/ui/")
    assert page.title()
