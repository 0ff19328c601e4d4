//! The page in a real Chromium: the flows a person goes through, one after the other in one window over the example vault, without an error on
//! the console. `FOREWORD_SCREENSHOTS=folder` saves what was seen; `FOREWORD_PAGE_PICTURE=file` the picture of the README.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;
mod webdriver;

use std::fs;
use std::path::Path;

use common::Running;
use serde_json::json;
use webdriver::Browser;

/// A session takes its replies in order. The fourth is slow, the fifth wants to write a note.
const SCRIPT: &str = r#"{"replies": [
    {"text": "Sow the beans in **mid May**, once the last frost is behind you:\n\n1. Soak *Painted Lady* overnight.\n2. Sow into the south bed, which is 4.2 m long: [[Garden/Beds]] says that tomatoes stood there last year.\n3. Keep a fleece at hand until 20 May.", "delay_ms": 2},
    {"text": "Two rows, 60 cm apart, a seed every 15 cm: that is about **56 plants** in the south bed.\n\n| bed | rows | plants |\n| --- | --- | --- |\n| south | 2 | 56 |\n| north | – | lettuce, then chard |", "delay_ms": 2},
    {"text": "What helped last year, in this order:\n\n- going out with a torch after rain\n- beer traps sunk to the rim\n- wool pellets round the lettuce\n\nEggshells and copper tape did **not** help. See [[Garden/Slugs]].", "delay_ms": 2},
    {"text": "one two three four five six seven eight nine ten eleven twelve one two three four five six seven eight nine ten eleven twelve one two three four five six seven eight nine ten eleven twelve one two three four five six seven eight nine ten eleven twelve", "delay_ms": 160},
    {"calls": [{"id": "a", "name": "writeNote", "arguments": {"path": "Garden/Beans 2027.md", "content": "Sow in mid May.\n"}}]},
    {"text": "I wrote it down in [[Garden/Beans 2027]].\n\n```sh\necho <b>hi</b>\n```\n\n<img src=x onerror=alert(1)>"},
    {"text": "The beans stand in the south bed. The frost ends in mid May."}
]}"#;

/// For the small things: the notes are cited, then words come slowly.
const CITING: &str = r#"{"replies": [
    {"text": "The beans stand in the south bed [^1], and the frost ends in mid May [^1, ^2]."},
    {"text": "one two three four five six seven eight nine ten eleven twelve one two three four five six seven eight nine ten eleven twelve", "delay_ms": 200},
    {"text": "Done."}
]}"#;

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";
const SPACE: &str = "\u{e00d}";
const IDLE: &str = "return document.querySelector('.send[aria-label=Send]') && !document.querySelector('.running')";

struct Page {
    server: Running,
    browser: Browser,
}

impl std::ops::Deref for Page {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Page {
    fn open() -> Self {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault");
        let server = Running::over(&examples, SCRIPT, Some("claude-sonnet-5"));
        let browser = Browser::open((1400, 900));
        browser.go(&server.page());
        browser.wait(
            "the page",
            "return document.querySelector('.try') && document.querySelector('.options option[value=gardener]')",
        );
        browser.look(1400, 900, "light");
        Self { server, browser }
    }

    fn say(&self, words: &str) {
        self.type_into("#composer", words);
        self.type_into("#composer", ENTER);
    }

    /// Asks and waits for all of the answer.
    fn ask(&self, words: &str) {
        let before = self.run("return document.querySelectorAll('.view-context').length").as_u64().unwrap();
        self.say(words);
        self.wait("the answer", &format!("return document.querySelectorAll('.view-context').length > {before}"));
        self.wait("the end", IDLE);
    }

    fn close_sheet(&self) {
        self.click("dialog[open] [aria-label=Close]");
        self.wait("it is closed", "return !document.querySelector('dialog[open]')");
    }

    fn shows(&self, css: &str, all: &[&str]) {
        let shown = self.text(css);
        for words in all {
            assert!(shown.contains(words), "{words} is not in {css}: {shown}");
        }
    }

    /// A picture in both sizes, light and dark.
    fn seen(&self, name: &str) {
        if std::env::var_os("FOREWORD_SCREENSHOTS").is_none() {
            return;
        }
        for (width, height, theme) in [(1400, 900, "dark"), (390, 844, "dark"), (390, 844, "light"), (1400, 900, "light")] {
            self.look(width, height, theme);
            self.picture(&format!("{name}-{width}-{theme}"));
        }
    }

    /// What a checker of accessibility would find, as far as it was ever found here.
    fn accessible(&self, what: &str) {
        let found = self.run(
            "const wrong = { 'a control in a summary': 'summary button, summary a, summary input', 'a role that a textarea cannot have': 'textarea[role]', \
             'a box without a label': 'input[type=checkbox]:not([aria-label]):not(label input)', 'a message without its speaker': '.message:not(:has(> h2))', \
             'a label that hides the words on a button': 'button.model[aria-label]', 'a second stop in a session': '.session .icon-button:not([tabindex=\"-1\"])' }; \
             const found = Object.entries(wrong).filter(([, css]) => document.querySelector(css)).map(([name]) => name); \
             if (document.querySelectorAll('h1').length !== 1) found.push('not one main heading'); return found.join(', ')",
        );
        assert_eq!(found, "", "{what}");
    }

    fn fits(&self, what: &str) {
        let over = self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(over, 0, "{what} is wider than the screen");
    }
}

#[test]
fn a_person_finds_their_way() {
    let page = Page::open();
    page.seen("welcome");
    asking(&page);
    what_the_model_was_given(&page);
    the_picture(&page);
    if let Some(file) = std::env::var_os("FOREWORD_PAGE_PICTURE") {
        page.run(
            "document.activeElement.blur(); document.querySelectorAll('.toast').forEach((toast) => toast.remove()); return 1",
        );
        page.save(Path::new(&file));
    }
    stopping_and_saying_it_otherwise(&page);
    approving(&page);
    items_and_the_catalog(&page);
    keeping_and_folding(&page);
    endless(&page);
    money_and_sessions(&page);
    on_a_phone(&page);
    the_page_of_the_api(&page);
    citing_and_typing(&page);
}

fn asking(page: &Page) {
    // A note by typing [[, a tag by #, anything by @; lines of a note; an answer as it comes, its markdown as nodes and nothing as markup.
    page.run("const agent = document.querySelector('.options select'); agent.value = 'gardener'; agent.dispatchEvent(new Event('change')); return 1");
    page.type_into("#composer", "When should the beans go in? [[Bed");
    page.wait("completions", "return document.querySelector('.completions .label')?.textContent === 'Garden/Beds'");
    page.seen("completion");
    page.type_into("#composer", ENTER);
    assert_eq!(page.run("return document.querySelector('#composer').value"), "When should the beans go in? [[Garden/Beds]]");
    page.type_into("#composer", " #garden/se");
    page.wait("tags", "return document.querySelector('.completions .kind')?.textContent === 'tag' && document.querySelector('.completions .label').textContent === '#garden/seeds'");
    page.type_into("#composer", ENTER);
    page.type_into("#composer", "@Today.md:1-3");
    page.wait("lines", "return document.querySelector('.completions .kind')?.textContent === 'lines'");
    page.type_into("#composer", ENTER);
    page.shows(".chips", &["#garden/seeds", "Today.md#L1-L3"]);
    page.click("[aria-label='Remove Today.md#L1-L3']");
    page.type_into("#composer", ENTER);
    page.wait("the answer", "return document.querySelector('.message.assistant .view-context')");
    page.wait("the end", IDLE);
    assert_eq!(page.run("return document.querySelector('.assistant strong').textContent"), "mid May");
    // Who does not see the answer hears it.
    page.wait(
        "it is read aloud",
        "return document.querySelector('#said[role=status]').textContent.startsWith('Answer complete. Sow the beans')",
    );
    page.shows(".attached", &["Garden/Beds", "Garden/Seeds"]);
    page.ask("How many plants is that?");
    // Before sending: what the next request would hold, and its price.
    page.type_into("#composer", "And what about slugs? [[Garden/Slugs]]");
    page.wait("the preview", "return document.querySelector('.next').innerText.includes('$')");
    page.shows(".next", &["next request", "tokens", "from the cache"]);
    page.click(".next summary");
    page.shows(".next", &["L1 System", "L4 History", "units", "Garden/Slugs", "Always", "Manual", "instead of"]);
    page.seen("preview");
    page.click(".next summary");
    page.type_into("#composer", ENTER);
    page.wait("the third answer", "return document.querySelectorAll('.view-context').length === 3");
    page.wait("the end", IDLE);
    page.wait("the picture", "return document.querySelectorAll('.chart .bar-group').length === 3");
    page.seen("answer");
    page.accessible("a session");
}

fn what_the_model_was_given(page: &Page) {
    page.click(".view-context");
    page.wait("the columns", "return document.querySelectorAll('dialog .columns section').length === 3");
    page.shows("dialog", &["Rules", "References", "Tools", "units", "010", "Always", "Garden/Beds", "Manual", "Left out"]);
    page.seen("context");
    page.click("dialog .strip .layer-3");
    page.wait(
        "a layer's text",
        "return [...document.querySelectorAll('dialog details[open] pre')].some((pre) => pre.textContent.includes('4.2 m long'))",
    );
    page.seen("layer");
    page.click("dialog [data-name=wire]");
    page.wait("the bytes", "return document.querySelector('dialog .wire')?.textContent.includes('beans')");
    page.close_sheet();
}

fn the_picture(page: &Page) {
    page.run(
        "document.querySelectorAll('.chart rect.layer-4')[1].dispatchEvent(new MouseEvent('click', { bubbles: true })); return 1",
    );
    page.wait("the history's text", "return document.querySelector('dialog details[open] pre')?.textContent.includes('How many plants') || document.querySelector('dialog details[open]')?.innerText.includes('mid May')");
    page.click("dialog [data-name=diff]");
    page.wait("the difference", "return document.querySelector('dialog .good')?.innerText.includes('continues')");
    // What was added, and nothing else.
    page.wait("the new words", "return [...document.querySelectorAll('dialog .changes .plus')].some((line) => line.innerText.includes('what about slugs'))");
    assert_eq!(page.run("return document.querySelectorAll('dialog .changes .minus').length"), 0);
    page.seen("difference");
    // By keyboard: from tab to tab, and from a bar to its request.
    page.type_into("dialog [data-name=diff]", RIGHT);
    page.wait(
        "the next tab",
        "return document.querySelector('dialog [data-name=wire][aria-selected=true]') === document.activeElement",
    );
    page.close_sheet();
    page.type_into(".chart .bar-group", SPACE);
    page.wait("a request", "return document.querySelector('dialog .columns')");
    page.close_sheet();
}

fn stopping_and_saying_it_otherwise(page: &Page) {
    // Stopping in mid-answer keeps what was said; a reload in mid-answer loses nothing.
    page.say("Count");
    page.wait("some words", "return document.querySelector('.running .words')?.innerText.includes('two')");
    page.run("location.reload(); return 1");
    page.wait("what was said before", "return document.querySelector('.running .words')?.innerText.startsWith('one two')");
    page.picture("streaming");
    page.click(".send.stop");
    page.wait("the end", IDLE);
    page.shows(".log", &["You stopped this answer."]);
    page.run("[...document.querySelectorAll('.message.user')].at(-1).querySelector('[aria-label=Edit]').click(); return 1");
    page.type_into("textarea.edit", " again");
    page.type_into("textarea.edit", ENTER);
    page.wait(
        "the edited message",
        "return [...document.querySelectorAll('.bubble')].some((bubble) => bubble.innerText === 'Count again')",
    );
}

fn approving(page: &Page) {
    // The tool asks in the conversation; what it would do is shown, also to who comes later.
    page.wait("the end", IDLE);
    page.say("Write that down");
    page.wait("the question", "return document.querySelector('.approval pre')?.textContent.includes('Sow in mid May')");
    page.wait("the focus on it", "return document.activeElement.className === 'approval'");
    page.seen("approval");
    page.run("location.reload(); return 1");
    page.wait("the question again", "return document.querySelectorAll('.approval').length === 1");
    page.type_into(".approval .primary", ENTER);
    page.wait("the way back", "return document.activeElement.id === 'composer'");
    page.wait("the end", IDLE);
    page.wait("the answer", "return document.querySelector('.log').innerText.includes('I wrote it down')");
    assert_eq!(page.run("return document.querySelectorAll('.words img').length"), 0);
    assert_eq!(page.run("return document.querySelector('.code code').textContent"), "echo <b>hi</b>");
    let note = page.server.folder.path().join("vault/Garden/Beans 2027.md");
    assert_eq!(fs::read_to_string(note).unwrap(), "Sow in mid May.\n");
    // Regenerate, then a fork.
    page.run("document.querySelector('.message:last-child').dataset.old = 'yes'; return 1");
    page.click(".message:last-child [aria-label='Regenerate']");
    page.wait("it is gone", "return !document.querySelector('[data-old]')");
    page.wait("the answer", "return document.querySelector('.log').innerText.includes('I wrote it down')");
    page.wait("the end", IDLE);
    page.run("document.querySelectorAll('[aria-label=\"Fork from here\"]')[1].click(); return 1");
    page.wait(
        "the fork",
        "return document.querySelectorAll('.message.user').length === 2 && document.querySelector('.session-from')",
    );
}

fn items_and_the_catalog(page: &Page) {
    page.click("[data-panel=context]");
    page.wait("the items", "return document.querySelector('.context [aria-label=\"Add bed-sizes\"]')");
    page.shows(".context", &["units", "010", "Always", "frost-dates", "Agent", "writeNote", "asks", "foreword"]);
    page.seen("items");
    page.accessible("the items of a session");
    // Three columns where there is room.
    let columns = "return getComputedStyle(document.querySelector('.context .columns')).gridTemplateColumns.split(' ').length";
    assert_eq!(page.run(columns), 1);
    page.look(1920, 1000, "light");
    assert_eq!(page.run(columns), 3);
    page.picture("items-1920");
    page.look(1400, 900, "light");
    page.type_into(".context [aria-label=\"Add bed-sizes\"]", ENTER);
    // The panel is drawn anew, and who is at it stays where they were.
    page.wait("it is in", "return document.activeElement.getAttribute('aria-label') === 'Remove bed-sizes'");
    // The catalog: another include mode and priority, a new rule, and one that somebody else changed meanwhile.
    let rule = page.server.folder.path().join("vault/Foreword/Agents/gardener/rules/safety.md");
    page.click("[data-item='rule:safety'] summary .item-name");
    page.wait("its form", "return document.querySelector('[data-item=\"rule:safety\"] form')");
    page.seen("catalog");
    page.run("const form = document.querySelector('[data-item=\"rule:safety\"] form'); form.querySelector('select').value = 'always'; form.querySelector('.priority-field').value = '005'; form.dispatchEvent(new Event('input')); form.requestSubmit(); return 1");
    page.wait("it is saved", "return document.querySelector('[data-item=\"rule:safety\"] .priority')?.innerText === '005'");
    assert!(fs::read_to_string(&rule).unwrap().contains("priority: 5\ninclude: always\n"));
    fs::write(&rule, "---\npriority: 6\n---\nMine.\n").unwrap();
    page.run("document.querySelector('[data-item=\"rule:safety\"] form').requestSubmit(); return 1");
    page.wait("it is refused", "return document.querySelector('.toast.error')?.innerText.includes('changed by someone else')");
    page.wait("what is there now", "return document.querySelector('[data-item=\"rule:safety\"] textarea')?.value === 'Mine.'");
    assert_eq!(fs::read_to_string(&rule).unwrap(), "---\npriority: 6\n---\nMine.\n");
    page.click("[aria-label='New rule']");
    page.run("const form = document.querySelector('dialog form'); form.querySelector('input').value = 'brief'; form.querySelector('textarea').value = 'Be brief.'; form.requestSubmit(); return 1");
    page.wait("the new rule", "return document.querySelector('[data-item=\"rule:brief\"]')");
    page.click("[aria-label='Widen the panel']");
    page.seen("items-wide");
    page.click("[aria-label='Narrow the panel']");
    // The refusal is an answer of the server, which a browser writes down.
    page.forget_log("412");
}

fn keeping_and_folding(page: &Page) {
    page.click("[data-panel=prompt]");
    page.run("document.querySelector('.message.user [data-pin]').click(); return 1");
    page.wait("it is pinned", "return document.querySelector('.message.user [data-pin][aria-pressed=true]')");
    page.click(".view-context");
    // The sheet may be drawn anew while it is clicked; pinning twice is pinning.
    let pin = "const on = document.querySelector('dialog .cards .icon-button[aria-pressed=true]'); \
               if (!on) document.querySelector('dialog .cards .icon-button[aria-pressed=false]')?.click(); return on";
    page.wait("the note is pinned", pin);
    page.close_sheet();
    for words in ["And the chard?", "When does the frost end?"] {
        page.ask(words);
    }
    page.wait("the pins", "return document.querySelectorAll('.pins li').length === 2");
    page.press(".fold button", "Fold (compact)…");
    page.wait("what would leave", "return document.querySelector('dialog .sums')");
    page.shows("dialog", &["prompt now", "after the fold", "messages removed"]);
    page.seen("fold");
    page.press("dialog button", "Fold with the next message");
    page.wait("it is closed", "return !document.querySelector('dialog[open]')");
    page.press(".fold button", "Undo the last fold");
    page.click(".pins .icon-button");
    page.wait("one is let go", "return document.querySelectorAll('.pins li').length === 1");
}

fn endless(page: &Page) {
    // Settings of a session that is there.
    page.click("button.model");
    page.wait("the settings", "return document.querySelector('dialog select[name=history] option[value=goal-oriented]')");
    page.seen("settings");
    page.run("const form = document.querySelector('dialog form'); form.querySelector('[name=history]').value = 'goal-oriented'; form.querySelector('[name=mode]').value = 'qa'; form.requestSubmit(); return 1");
    page.wait("they hold", "return document.querySelector('button.model').innerText.includes('qa · Endless')");
    // Now the notes are searched before an answer, and its context tells what was found.
    page.ask("Where do the beans stand, in the south bed?");
    page.run("[...document.querySelectorAll('.view-context')].at(-1).click(); return 1");
    page.wait("what was found", "return document.querySelector('dialog .item .score')?.innerText.match(/^\\d\\.\\d\\d$/)");
    page.shows("dialog", &["matching passage", "Beds"]);
    page.seen("found");
    page.close_sheet();
    // A new one that is endless from the start, with a template of the vault that summarises at once.
    let folder = page.server.folder.path().join("vault/Foreword/ContextTemplates");
    fs::create_dir_all(&folder).unwrap();
    let template = "---\ndescription: For the tests\npassthrough_runs: 1\ntoken_threshold: 0\nrecent_runs: 3\n---\n\n## Summary\n\nWhat was said?\n";
    fs::write(folder.join("at-once.md"), template).unwrap();
    page.go(&format!("http://{}/", page.server.address));
    // The template came into the folder by another way than this page, so the person is asked.
    page.wait("the banner", "return !document.querySelector('.trust-banner').hidden");
    page.run("document.querySelector('.trust-banner button').click(); return 1");
    page.wait("the claim", "return document.querySelector('dialog .trust-claim')");
    page.shows("dialog", &["context template at-once", "What was said?", "Waiting for your decision"]);
    page.seen("trust");
    page.run("document.querySelector('dialog input[value=allowed]').click(); document.querySelector('dialog button.primary').click(); return 1");
    page.wait("no banner", "return document.querySelector('.trust-banner').hidden");
    page.go(&format!("http://{}/", page.server.address));
    page.wait("the template", "return document.querySelector('.options option[value=at-once]')");
    page.run("for (const select of document.querySelectorAll('.options select')) { for (const value of ['at-once', 'library']) if ([...select.options].some((option) => option.value === value)) select.value = value; } return 1");
    let words = "The beans stand in the south bed, which is 4.2 m long, and the frost ends in mid May. ".repeat(6);
    for more in ["First.", "Second.", "Third."] {
        page.ask(&format!("{more} {words}"));
    }
    page.press(".fold button", "Summary and its sources");
    page.wait("the summary", "return document.querySelector('dialog .summary .cite')");
    page.click("dialog .summary .cite");
    page.wait("its source", "return document.querySelector('dialog .source pre')?.textContent.includes('south bed')");
    page.seen("summary");
    page.close_sheet();
}

fn money_and_sessions(page: &Page) {
    page.press(".bar-button", "Cost");
    page.wait("the ledger", "return document.querySelector('dialog .sums.large')");
    page.shows("dialog", &["saved by caches", "folds", "paid"]);
    page.seen("cost");
    page.press("dialog button", "Every request, breaks and what-if");
    let report = "document.querySelector('dialog .report')?.shadowRoot";
    page.wait("the report", &format!("return {report}?.querySelectorAll('svg g').length > 0"));
    let words = page.run(&format!("return {report}.textContent"));
    for heading in ["read from the cache", "What if", "Breaks", "Requests", "as logged"] {
        assert!(words.as_str().is_some_and(|words| words.contains(heading)), "{heading}: {words}");
    }
    let styled = page.run(&format!("return getComputedStyle({report}.querySelector('td.bar div')).backgroundColor"));
    assert_ne!(styled, json!("rgba(0, 0, 0, 0)"), "the style was not loaded");
    page.seen("report");
    page.close_sheet();
    page.type_into(".side-search input", "slugs");
    page.wait("what was found", "return document.querySelector('.session-open.hit')");
    page.seen("search");
    page.click(".session-open.hit");
    page.wait("the session", "return document.querySelector('.log').innerText.includes('slugs')");
    page.wait("the turn", "return document.querySelector('.found-turn')?.innerText.includes('slugs')");
    // A note to read, and lines of it to attach.
    page.press(".attached .chip", "Garden/Beds");
    page.press("dialog button", "Choose lines");
    page.click("dialog .line:nth-child(3)");
    page.click("dialog .line:nth-child(4)");
    page.seen("lines");
    page.press("dialog button", "Attach lines 3 to 4");
    page.wait("the chip", "return document.querySelector('.chips').innerText.includes('Garden/Beds.md#L3-L4')");
    page.no_errors();
}

fn on_a_phone(page: &Page) {
    page.look(390, 844, "dark");
    page.run("document.querySelectorAll('.toast').forEach((toast) => toast.remove()); return 1");
    page.fits("the chat");
    page.picture("phone");
    page.click(".view-context");
    page.wait("the columns", "return document.querySelector('dialog .columns')");
    page.fits("the context");
    page.close_sheet();
    for panel in ["prompt", "context"] {
        if page.run(&format!("return document.querySelector('[data-panel={panel}]').getAttribute('aria-pressed')"))
            != json!("true")
        {
            page.click(&format!("[data-panel={panel}]"));
        }
        page.fits(panel);
        page.click("[aria-label='Close the panel']");
    }
    page.click(".menu-button");
    page.wait("the sessions", "return getComputedStyle(document.querySelector('.side')).visibility === 'visible'");
    page.picture("phone-sessions");
    page.fits("the sessions");
    page.no_errors();
    page.look(1400, 900, "light");
}

fn the_page_of_the_api(page: &Page) {
    page.go(&format!("http://{}/api.html", page.server.address));
    page.wait("the calls", "return document.querySelectorAll('.operation').length > 40");
    page.run("const one = [...document.querySelectorAll('.operation')].find((one) => one.innerText.includes('/api/v1/health')); one.open = true; one.querySelector('.primary').click(); return 1");
    page.wait("an answer", "return [...document.querySelectorAll('.out')].some((out) => out.textContent.includes('\"ok\"'))");
    page.picture("api");
    page.no_errors();
}

fn citing_and_typing(page: &Page) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault");
    let server = Running::over(&examples, CITING, Some("claude-sonnet-5"));
    page.go(&server.page());
    page.wait("the choices", "return document.querySelector('.options option[value=gardener]')");
    page.look(1400, 900, "light");
    // Before there is a session: the tools it would have, and what the first request would hold.
    page.click("[data-panel=context]");
    page.wait("the tools", "return document.querySelector('.context [data-kind=tool]')?.innerText.includes('writeNote')");
    page.run("const mode = document.querySelector('[aria-label=\"Mode of the new session\"]'); mode.value = 'qa'; mode.dispatchEvent(new Event('change')); return 1");
    page.type_into("#composer", "Where do the beans stand, in the south bed?");
    page.wait("the preview", "return document.querySelector('.next').innerText.includes('$')");
    page.seen("first");
    page.ask("");
    // A citation leads to the note it names, and nowhere else.
    assert_eq!(page.run("return document.querySelectorAll('.words button.cite').length"), 3);
    page.seen("cited");
    let source = page.text(".sources li .wikilink");
    page.click(".words button.cite");
    page.wait("the note", "return document.querySelector('dialog[open] h2')");
    assert_eq!(page.text("dialog h2"), format!("{source}.md"));
    page.close_sheet();
    // Enter while an answer comes neither stops it nor loses what was typed; Escape stops it.
    page.say("Count");
    page.wait("some words", "return document.querySelector('.running .words')?.innerText.includes('two')");
    page.say("And then?");
    page.shows(".next", &["still streaming"]);
    page.wait("it goes on", "return document.querySelector('.running .words')?.innerText.includes('six')");
    page.type_into("#composer", ESCAPE);
    page.wait("the end", IDLE);
    let typed = "return document.querySelector('#composer').value";
    assert_eq!(page.run(typed), "And then?");
    // It waits in its session.
    page.click("[aria-label='New session (Alt+N)']");
    page.wait("a new one", "return document.querySelector('.welcome')");
    assert_eq!(page.run(typed), "");
    page.click(".session-open");
    page.wait("what was begun", "return document.querySelector('#composer').value === 'And then?'");
    // The clip behind a word; an address with other signs in it; lines of a note whose name has spaces.
    page.click("[aria-label=Attach]");
    assert_eq!(page.run(typed), "And then? @");
    page.type_into("#composer", "https://example.org/a@b#c");
    let label = "return document.querySelector('.completions:not([hidden]) .label')?.textContent";
    page.wait("the address", &format!("{label} === 'https://example.org/a@b#c'"));
    page.type_into("#composer", ENTER);
    page.type_into("#composer", "@Piano Lessons/Less");
    page.wait("the note", &format!("{label} === 'Piano Lessons/Lesson 3'"));
    page.type_into("#composer", "on 4.md:2-3");
    page.wait("the lines", &format!("{label} === 'Piano Lessons/Lesson 4.md, lines 2 to 3'"));
    page.type_into("#composer", ENTER);
    page.shows(".chips", &["https://example.org/a@b#c", "Piano Lessons/Lesson 4.md#L2-L3"]);
    // The preview may say that there is no such page, which a browser writes down.
    page.click("[aria-label='Remove https://example.org/a@b#c']");
    page.click("[aria-label='Remove Piano Lessons/Lesson 4.md#L2-L3']");
    // What cannot be sent is said before it is.
    page.type_into("#composer", "@Nothing.md:1-2");
    page.wait("the lines", &format!("{label} === 'Nothing.md, lines 1 to 2'"));
    page.type_into("#composer", ENTER);
    page.wait("the refusal", "return document.querySelector('.next-words.bad:not([hidden])')?.innerText.includes('Nothing.md')");
    page.seen("refused");
    page.click("[aria-label='Remove Nothing.md#L1-L2']");
    // A drag that ends beside a sheet leaves it open; a click there closes it.
    page.click(".sources .wikilink");
    page.wait("the note again", "return document.querySelector('dialog[open]')");
    let press = |on: &str| {
        let press = format!(
            "const sheet = document.querySelector('dialog[open]'); sheet.{on}dispatchEvent(new PointerEvent('pointerdown', {{ bubbles: true }})); sheet.dispatchEvent(new MouseEvent('click', {{ bubbles: true }})); return sheet.open"
        );
        page.run(&press)
    };
    assert_eq!((press("querySelector('p').",), press("")), (json!(true), json!(false)));
    page.forget_log("/preview");
}

/// A question without an answer, half an answer, one that is as long as it may be, and one that comes slowly.
const FAILING: &str = r#"{"replies": [
    {"error": "asking llm.example: 500 Internal Server Error: overloaded"},
    {"text": "The beans go in ", "error": "asking llm.example: the connection was lost"},
    {"text": "The beans go in in mid May and", "length": true},
    {"text": "then the frost is over."},
    {"text": "one two three four five six seven eight nine ten eleven twelve one two three four five six seven eight", "delay_ms": 150},
    {"text": "Done."}
]}"#;

#[test]
fn what_went_wrong_stays_in_the_conversation() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault");
    let page = Page { server: Running::over(&examples, FAILING, Some("claude-sonnet-5")), browser: Browser::open((1400, 900)) };
    page.go(&page.server.page());
    page.wait("the page", "return document.querySelector('.try')");
    page.look(1400, 900, "light");
    let card = "return document.querySelector('.error-card')?.innerText";
    page.say("When do the beans go in?");
    page.wait("the reason", card);
    page.shows(".error-card", &["The request failed", "500 Internal Server Error", "Retry", "Change model"]);
    page.seen("no-answer");
    // It is on record: a reload tells it again, and nothing of it follows into another session.
    page.run("location.reload(); return 1");
    page.wait("the reason again", card);
    page.click("[aria-label='New session (Alt+N)']");
    page.wait("a new one", "return document.querySelector('.welcome') && !document.querySelector('.error-card, .toast')");
    page.run("history.back(); return 1");
    page.wait("the session that was left", card);
    page.press(".error-card button", "Retry");
    page.wait("half an answer", "return document.querySelector('.error-card')?.innerText.includes('The answer was interrupted')");
    page.shows(".log", &["The beans go in", "the connection was lost", "Continue"]);
    page.seen("broke-off");
    // A script takes its replies by requests, and the one that was retried counts once: it breaks off once more.
    page.press(".error-card button", "Continue");
    page.wait("the next question", "return document.querySelectorAll('.bubble').length === 2");
    page.wait("half an answer again", card);
    page.press(".error-card button", "Continue");
    page.wait("the limit", "return document.querySelector('.early-end[data-why=length]')?.innerText.includes('length limit')");
    assert_eq!(page.run("return document.querySelectorAll('.error-card').length"), 0);
    page.seen("length");
    page.press(".early-end button", "Continue");
    page.wait("the rest", "return document.querySelector('.log').innerText.includes('then the frost is over.')");
    page.wait("the end", IDLE);
    // What was selected stays selected while an answer comes, and when it is whole.
    page.run("const words = document.querySelector('.bubble'); getSelection().selectAllChildren(words); return 1");
    page.run("const field = document.querySelector('#composer'); field.value = 'Count'; field.dispatchEvent(new Event('input')); document.querySelector('.send').click(); return 1");
    page.wait("some words", "return document.querySelector('.running .words')?.innerText.includes('two')");
    page.run("const text = document.querySelector('.running .words p').firstChild; getSelection().setBaseAndExtent(text, 0, text, 7); return 1");
    page.wait("more words", "return document.querySelector('.running .words')?.innerText.includes('nine')");
    assert_eq!(page.run("return getSelection().toString()"), "one two");
    page.wait("the end", IDLE);
    page.wait("its context", "return document.querySelectorAll('.view-context').length === 5");
    assert_eq!(page.run("return getSelection().toString()"), "one two");
    // What is asked of a session that answers again already is refused, which a browser writes down.
    page.forget_log("409");
    page.say("Again");
    page.wait("the last answer", "return document.querySelector('.log').innerText.includes('Done.')");
    page.wait("the end", IDLE);
}

#[test]
fn the_way_back_leads_back() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault");
    let server = Running::over(&examples, r#"{"replies": [{"text": "Sow the beans in **mid May**."}]}"#, Some("claude-sonnet-5"));
    let page = Page { server, browser: Browser::open((1400, 900)) };
    page.go(&page.server.page());
    page.wait("the page", "return document.querySelector('.try')");
    page.accessible("the first screen");
    // What is completed stays in the sentence.
    page.type_into("#composer", "What about @Garden/Bed");
    page.wait("the note", "return document.querySelector('.completions:not([hidden]) .label')?.textContent === 'Garden/Beds'");
    page.type_into("#composer", ENTER);
    page.type_into("#composer", " and #garden/see");
    page.wait("the tag", "return document.querySelector('.completions:not([hidden]) .label')?.textContent === '#garden/seeds'");
    page.type_into("#composer", ENTER);
    let typed = "return document.querySelector('#composer').value";
    assert_eq!(page.run(typed), "What about [[Garden/Beds]] and #garden/seeds ");
    page.shows(".chips", &["#garden/seeds"]);
    // A link that leads nowhere is told before it is sent.
    page.type_into("#composer", "or [[No Such Note]] ");
    page.wait(
        "the remark",
        "return document.querySelector('.next-words:not([hidden])')?.innerText.includes('[[No Such Note]] attaches nothing')",
    );
    // A draft survives a reload.
    page.run("location.reload(); return 1");
    page.wait("the page", "return document.querySelector('.try')");
    assert_eq!(page.run(typed), "What about [[Garden/Beds]] and #garden/seeds or [[No Such Note]] ");
    page.shows(".chips", &["#garden/seeds"]);
    page.ask("?");
    let first = page.run("return location.hash");
    page.click("[aria-label='New session (Alt+N)']");
    page.wait("a new one", "return document.querySelector('.welcome') && location.hash === ''");
    page.run("history.back(); return 1");
    page.wait("the session", "return document.querySelector('.assistant strong')?.textContent === 'mid May'");
    assert_eq!(page.run("return location.hash"), first);
    page.run("history.forward(); return 1");
    page.wait("the new one", "return document.querySelector('.welcome')");
    page.run(&format!("location.hash = {first}; return 1"));
    page.wait("the session by its address", "return document.querySelector('.assistant strong')");
    // A renamed session is found by its title, and by keys alone.
    let id = first.as_str().unwrap().trim_start_matches("#/").to_owned();
    page.server.call("PATCH", &format!("/api/v1/sessions/{id}"), Some(&json!({"title": "Planting out"})));
    page.run("document.querySelector('.side-search input').focus(); return 1");
    page.type_into(".side-search input", "plan");
    page.wait("the title", "return document.querySelector('.found-session .session-title mark')?.textContent === 'Plan'");
    page.accessible("what was found");
    page.type_into(".side-search input", DOWN);
    page.wait("the first hit", "return document.activeElement.innerText === 'Planting out'");
    page.type_into(".session-open:focus", ESCAPE);
    page.wait(
        "the list",
        "return document.querySelector('.session') && document.activeElement.type === 'search' && !document.activeElement.value",
    );
    // Escape while writing leaves the panel open.
    page.type_into("#composer", ESCAPE);
    assert_eq!(page.run("return document.querySelector('.panel').hidden"), false);
    page.no_errors();
}

/// A text as the page shows it: its markup without attributes that only say how it looks or behaves.
const MARKDOWN: &[(&str, &str)] = &[
    ("**A** and **5**", "<p><strong>A</strong> and <strong>5</strong></p>"),
    ("snake_case and __bold__ and ***x***", "<p>snake_case and <strong>bold</strong> and <em><strong>x</strong></em></p>"),
    (r"\*no\* &amp; &lt;b&gt;", "<p>*no* &amp; &lt;b&gt;</p>"),
    ("[t](https://e.org/a \"title\")", "<p><a>t</a></p>"),
    ("[a][r]\n\n[r]: https://x.org", "<p><a>a</a></p>"),
    (
        "a | b\n--|:-:\n1 | 2",
        "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>",
    ),
    ("see https://e.org/x, or https://e.org/y.", "<p>see <a>https://e.org/x</a>, or <a>https://e.org/y</a>.</p>"),
    ("![a leaf](https://x.org/p.png)", "<p><a>Image: a leaf</a></p>"),
    ("> [!warning] Mind *it*\n> body", "<blockquote><p>Mind <em>it</em></p><p>body</p></blockquote>"),
    ("> a\n\n> b", "<blockquote><p>a</p></blockquote><blockquote><p>b</p></blockquote>"),
    ("- [x] done\n- [ ] open", "<ul><li><input>done</li><li><input>open</li></ul>"),
    ("1. a\n   - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
    ("See [[Garden/Beds|the beds]].", "<p>See <button>the beds</button>.</p>"),
    (
        "It is so [^1].\n\n[^1]: [[Garden/Beds]]",
        "<p>It is so <sup><button>1</button></sup>.</p><ul><li><span>1</span><span><button>Garden/Beds</button></span></li></ul>",
    ),
    ("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>"),
    ("[j](javascript:alert(1)) [d](data:text/html,x)", "<p>[j](javascript:alert(1)) [d](data:text/html,x)</p>"),
    ("<https://e.org/\"onclick=x>", "<p><a>https://e.org/\"onclick=x</a></p>"),
    (
        "`<b>` and\n\n    <i>\n",
        "<p><code>&lt;b&gt;</code> and</p><figure><figcaption><span>text</span><button>Copy</button></figcaption><pre><code>&lt;i&gt;</code></pre></figure>",
    ),
    ("a\nb", "<p>a<br>b</p>"),
];

#[test]
fn markdown_is_read_as_commonmark() {
    let page = Page::open();
    page.run("import('/markdown.js').then((module) => { window.reading = module; }); return 1");
    page.wait("the module", "return window.reading && 1");
    for (text, expect) in MARKDOWN {
        let shown = format!(
            "const node = document.createElement('div'); node.append(...window.reading.markdown({}, () => {{}})); return node.innerHTML.replace(/<(\\w+)[^>]*>/g, '<$1>')",
            json!(text)
        );
        assert_eq!(page.run(&shown), *expect, "{text}");
    }
    // Read as it grows, it is the same in the end.
    let all = MARKDOWN.iter().map(|(text, _)| *text).collect::<Vec<_>>().join("\n\n");
    let same = format!(
        "const [text, whole, grown] = [{}, document.createElement('div'), document.createElement('div')]; whole.append(...window.reading.markdown(text, () => {{}})); \
         const growing = new window.reading.GrowingMarkdown(grown, () => {{}}); for (let end = 1; end < text.length; end += 3) growing.grow(text.slice(0, end)); \
         growing.finish(text); return whole.isEqualNode(grown)",
        json!(all)
    );
    assert_eq!(page.run(&same), true);
    assert_eq!(page.run("return document.querySelectorAll('img[src=x]').length"), 0);
    page.no_errors();
}
