//! Whatever happens in whatever order, nobody's words are lost.

use std::fs;

use proptest::prelude::*;

use super::*;

/// What happens between two looks at the vault.
#[derive(Clone, Debug)]
enum Event {
    Say,
    Save,
    /// A save that is not remembered.
    Killed,
    /// What was remembered is lost.
    Forget,
    /// The Session goes back by one turn.
    Rewind,
    Move(u8),
    Copy,
    /// A word is put before the n-th line.
    Edit(u8),
    /// A line is taken away.
    Cut(u8),
    /// A message is added.
    Append,
    Windows,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Say),
        4 => Just(Event::Save),
        2 => Just(Event::Killed),
        1 => Just(Event::Forget),
        1 => Just(Event::Rewind),
        1 => (0..4_u8).prop_map(Event::Move),
        1 => Just(Event::Copy),
        3 => any::<u8>().prop_map(Event::Edit),
        2 => any::<u8>().prop_map(Event::Cut),
        2 => Just(Event::Append),
        1 => Just(Event::Windows),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_words_are_lost(events in prop::collection::vec(event(), 1..30)) {
        let mut world = World::new();
        let mut said = 0;
        let mut by_hand: Vec<String> = Vec::new();
        for event in events {
            let path = world.known.as_ref().map(|known| known.path.clone()).filter(|path| world.at(path).is_file());
            let change = |change: &dyn Fn(&str) -> String| {
                if let Some(path) = &path {
                    world.write(path, &change(&world.read(path)));
                }
            };
            match event {
                Event::Say => {
                    said += 1;
                    world.say(&format!("said{said}x"));
                }
                Event::Save => {
                    let edit = world.save();
                    if let Edit::Merged(merged) = edit {
                        world.ours = merged;
                    }
                }
                Event::Killed => {
                    // Only what the Session has taken over may be forgotten.
                    let known = world.known.clone();
                    if let Edit::Merged(merged) = world.save() {
                        world.ours = merged;
                    } else {
                        world.known = known;
                    }
                }
                Event::Forget => world.known = None,
                Event::Rewind if world.ours.messages.len() > 2 => {
                    // What a person wrote and the Session took over goes with the turns that the Session drops.
                    let length = world.ours.messages.len() - 2;
                    let gone = world.ours.messages.split_off(length);
                    by_hand.retain(|word| !gone.iter().any(|entry| entry.text.contains(word.as_str())));
                }
                Event::Move(to) => {
                    let to = ["plan.md", "Foreword/Chats/plan.md", "Deep/er/plan.md", NAME][usize::from(to)];
                    if let Some(path) = path.filter(|_| !world.at(to).exists()) {
                        world.rename(&path, to);
                    }
                }
                Event::Copy => change(&|text| {
                    world.write("Copies/a copy.md", text);
                    text.to_owned()
                }),
                Event::Edit(line) if path.is_some() => {
                    let word = format!("hand{}x", by_hand.len());
                    change(&|text| with_line(text, line, |old| format!("{word} {old}")));
                    by_hand.push(word);
                }
                Event::Append if path.is_some() => {
                    let word = format!("hand{}x", by_hand.len());
                    change(&|text| format!("{text}\n**user**: {word}\n"));
                    by_hand.push(word);
                }
                Event::Rewind | Event::Edit(_) | Event::Append => {}
                Event::Cut(line) => {
                    let mut gone = String::new();
                    if let Some(path) = &path {
                        let text = world.read(path);
                        world.write(path, &with_line(&text, line, |old| { gone = old.to_owned(); String::new() }));
                    }
                    by_hand.retain(|word| !gone.contains(word.as_str()));
                }
                Event::Windows => change(&|text| text.replace("\r\n", "\n").replace('\n', "\r\n")),
            }
        }
        if let Edit::Merged(merged) = world.save() {
            world.ours = merged;
        }
        let all: Vec<String> = world.files().iter().map(|file| world.read(file)).collect();
        for word in &by_hand {
            prop_assert!(all.iter().any(|text| text.contains(word.as_str())), "{} in {:?}", word, world.files());
        }
        prop_assert_eq!(world.read(world.path()), world.chats.render(&world.ours));
        prop_assert!(world.files().iter().all(|file| !file.contains(".foreword-")));
        let before = fs::read(world.at(world.path())).unwrap();
        prop_assert_eq!(world.save(), Edit::None);
        prop_assert_eq!(fs::read(world.at(world.path())).unwrap(), before);
    }
}

/// `text` with another `n`-th line, counted on from the start where there are fewer; our comment is not edited by hand.
fn with_line(text: &str, n: u8, mut change: impl FnMut(&str) -> String) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let visible: Vec<usize> = (0..lines.len()).filter(|at| !lines[*at].starts_with(['{', '<', ']'])).collect();
    let Some(at) = visible.get(usize::from(n) % visible.len().max(1)) else { return text.to_owned() };
    lines.iter().enumerate().map(|(index, line)| if index == *at { change(line) } else { (*line).to_owned() }).collect()
}
