"""The harness itself: it sees what a page shows, asks the kernel, and does not overlook what goes wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import chrome
from tests.browser.server import wait_until

HERE = Path(__file__).parent


def test_runs_a_notebook_and_asks_its_kernel(notebook_page):
    page = notebook_page(HERE / "notebooks" / "trivial.py")
    page.run_all()
    expect(page.view.locator("#seen-by-the-browser")).to_have_text("drawn")
    assert page.python("answer") == {"six times seven": 42}
    assert [output["text"] for output in page.outputs("stream")] == ["printed\n"]
    assert page.picture("seen").stat().st_size > 10_000
    page.assert_clean()


def test_blank_pages_are_in_one_process_and_what_needs_jupyterlab_in_one(request):
    """Where tests are shared out among processes."""
    browser = [item for item in request.session.items if HERE in item.path.parents]
    assert request.node in browser
    for item in browser:
        group = "JupyterLab" if "lab" in item.fixturenames else "blank pages"
        assert item.nodeid.endswith(f"@{group}") == request.config.getoption("loadgroup", False)


def test_notices_failures(notebook_page):
    page = notebook_page(HERE / "notebooks" / "failing.py")
    with pytest.raises(AssertionError, match=r"cell 0:\n(.*\n)*.*ZeroDivisionError"):
        page.run_all()
    with pytest.raises(AssertionError, match="NameError: name 'nothing' is not defined"):
        page.python("nothing")
    page.view.evaluate("() => console.error('seen')")
    page.view.evaluate("() => fetch('http://outside.invalid/').catch(() => 0)")
    with pytest.raises(AssertionError, match="asked for .*outside.invalid"):
        page.assert_clean()
    page.blocked.clear()
    with pytest.raises(AssertionError, match="console shows errors:\nseen"):
        page.assert_clean()


def test_says_why_a_server_is_not_there(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", "print('no port is free'); raise SystemExit(3)"], stdout=output
        )
    with pytest.raises(RuntimeError, match=r"python.* ended with 3. Its log:\nno port is free"):
        wait_until(process, (tmp_path / "none").read_text, log)


def test_says_what_to_do_without_a_browser(monkeypatch, tmp_path):
    monkeypatch.delenv("MESHLAB_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chrome, "APPLICATIONS", ())
    with pytest.raises(chrome.NoBrowserError, match="apt-get install chromium.*MESHLAB_NO_BROWSER=1 skips"):
        chrome.find()
    monkeypatch.setenv("MESHLAB_CHROMIUM", str(tmp_path / "none"))
    with pytest.raises(chrome.NoBrowserError, match="MESHLAB_CHROMIUM names .*none, which does not exist"):
        chrome.find()
