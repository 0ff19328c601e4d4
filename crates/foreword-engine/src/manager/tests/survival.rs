//! 200 facts over 500 turns and at least ten folds: every one is in the prompt, or one `recall` away.

use foreword_core::session::Pin;
use foreword_tools::Builtin as _;
use serde_json::json;

use super::*;

const TURNS: usize = 500;
const FACTS: usize = 200;

struct Planted {
    words: String,
    exact: String,
    pinned: bool,
}

fn planted(number: usize) -> Planted {
    let (words, exact, pinned) = match number % 10 {
        0 => (format!("Never cut board {number}."), format!("Never cut board {number}."), true),
        1..4 => {
            (format!("The part is in parts/box{number}/lid{number}.md now."), format!("parts/box{number}/lid{number}.md"), false)
        }
        4..7 => (format!("It weighs {} kg.", 3_000 + number), format!("{} kg", 3_000 + number), false),
        _ => (format!("We decided to use glue type{number}."), format!("We decided to use glue type{number}."), false),
    };
    Planted { words, exact, pinned }
}

fn survive(history: HistoryPolicy, manager: Option<Manager>) {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log, 3_200, history);
    kept.set_manager(manager);
    let mut model = model(|_| says("The user keeps talking about boards and glue."));
    for turn in 0..TURNS {
        let number = turn * FACTS / TURNS;
        let is_new = turn == 0 || (turn - 1) * FACTS / TURNS != number;
        let fact = is_new.then(|| planted(number));
        let words = fact.as_ref().map_or_else(|| "Go on with it.".to_owned(), |fact| fact.words.clone());
        place.send(&mut kept, &mut model, &format!("{words} {}", "And so on. ".repeat(12)));
        if let Some(fact) = fact.filter(|fact| fact.pinned) {
            let log = kept.store().log("s", 0).unwrap();
            let inputs = log.iter().filter(|entry| crate::session::is_input(&entry.kind));
            let turn = inputs.enumerate().filter(|(_, entry)| entry.kind == "turn").last().unwrap().0;
            let from = format!("m{turn}").parse().unwrap();
            kept.tell(Input::Pin(Pin::Text { from, text: fact.exact }), 9).unwrap();
        }
    }
    let folds = kept.store().requests("s").unwrap().iter().filter(|request| request.began.is_some()).count();
    assert!(folds >= 10, "{folds} folds");
    let sent = model.sent.lock().unwrap();
    let prompt: String = sent.last().unwrap().iter().map(|message| message.content().into_owned()).collect::<Vec<_>>().join("\n");
    let file = place.folder.path().join("foreword.db");
    let past = StoredPast::new(Box::new(move || Ok(Box::new(Sqlite::open(&file)?))), "s");
    let mut recall = Recall::new(Box::new(past), None);
    let mut in_prompt = 0;
    for fact in (0..FACTS).map(planted) {
        if prompt.contains(&fact.exact) {
            in_prompt += 1;
            continue;
        }
        assert!(!fact.pinned, "{:?} is pinned and not in the prompt:\n{prompt}", fact.exact);
        let recalled = recall.run(&json!({"query": fact.exact}));
        assert!(recalled.text.contains(&fact.exact), "{:?} is lost: {}", fact.exact, recalled.text);
    }
    assert!(in_prompt >= FACTS / 10);
}

#[test]
fn with_the_engines_own_summary() {
    survive(HistoryPolicy::Full, None);
}

#[test]
fn with_a_model_that_forgets() {
    survive(managed(400), Some(Manager::new(Ok(template("## State\nWhat is the state?")))));
}
