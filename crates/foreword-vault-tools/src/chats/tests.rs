//! The folder of a vault's Sessions under everything a person, another program or a kill does to it.

mod disk;
mod import;
mod random;

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use tempfile::TempDir;

use super::*;

pub(super) const EPOCH: i64 = 1_727_122_680_123;
pub(super) const NAME: &str = "Foreword/Chats/20240923_201800__Plan_the_week.md";

/// A vault and a Session in it.
pub(super) struct World {
    folder: TempDir,
    pub(super) chats: Chats,
    pub(super) ours: Transcript,
    pub(super) known: Option<Saved>,
}

impl World {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let chats = Chats::open(folder.path(), TimeZone::UTC).unwrap();
        let ours = Transcript { epoch_ms: EPOCH, session: Some("s-1".to_owned()), ..Transcript::default() };
        let mut world = Self { folder, chats, ours, known: None };
        world.say("Plan the week");
        world
    }

    /// A World whose Session has been saved.
    pub(super) fn saved() -> Self {
        let mut world = Self::new();
        assert_eq!(world.save(), Edit::None);
        assert_eq!(world.path(), NAME);
        world
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}; there are {:?}", self.files()))
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        fs::create_dir_all(self.at(to).parent().unwrap()).unwrap();
        fs::rename(self.at(from), self.at(to)).unwrap();
    }

    /// Changes the one place in the Session's file where `from` stands.
    pub(super) fn edit(&self, from: &str, to: &str) -> String {
        let text = self.read(self.path());
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {text}");
        let text = text.replacen(from, to, 1);
        self.write(self.path(), &text);
        text
    }

    /// A question, and its answer.
    pub(super) fn say(&mut self, text: &str) {
        let count = i64::try_from(self.ours.messages.len()).unwrap();
        let at = |second: i64| Some(Timestamp::from_millisecond(EPOCH + (count + second) * 1000).unwrap());
        let answer = format!("The answer to: {text}");
        self.ours.messages.push(Entry { time: at(0), ..Entry::new(Role::User, text) });
        self.ours.messages.push(Entry { time: at(1), ..Entry::new(Role::Assistant, answer) });
    }

    pub(super) fn try_save(&mut self) -> Result<Edit, ChatError> {
        let Outcome { saved, edit } = self.chats.save(&self.ours, self.known.as_ref())?;
        let written = if let Edit::Merged(merged) = &edit { merged } else { &self.ours };
        assert_eq!(self.read(&saved.path), self.chats.render(written));
        let kept = serde_json::to_string(&saved).unwrap();
        assert_eq!(serde_json::from_str::<Saved>(&kept).unwrap(), saved);
        self.known = Some(saved);
        Ok(edit)
    }

    pub(super) fn save(&mut self) -> Edit {
        self.try_save().unwrap()
    }

    pub(super) fn path(&self) -> &str {
        &self.known.as_ref().unwrap().path
    }

    /// All files, hidden ones included.
    pub(super) fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![self.at("")];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else {
                    files.push(path.strip_prefix(self.at("")).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        files.sort();
        files
    }
}

#[test]
fn every_message_goes_to_the_same_file() {
    let mut world = World::saved();
    for turn in 0..5 {
        world.say(&format!("turn {turn}"));
        assert_eq!(world.save(), Edit::None);
        // A new topic does not rename it.
        world.ours.topic = Some(format!("Topic {turn}"));
    }
    assert_eq!(world.files(), [NAME]);
}

#[test]
fn a_moved_or_renamed_file_is_found_again() {
    fn check(to: &str, change: impl Fn(String) -> String, expect: &str) {
        let mut world = World::saved();
        world.rename(NAME, to);
        world.write("Notes/a.md", "# A note");
        world.write("Foreword/Chats/other.md", "---\nepoch: 5\ntags: [copilot-conversation]\n---\n\n**user**: x");
        world.write(to, &change(world.read(to)));
        world.say("More");
        assert_eq!(world.save(), Edit::None);
        assert_eq!(world.path(), expect);
        let others = world.files().iter().filter(|file| file.contains("2024") || **file == expect).count();
        assert_eq!(others, if expect == to { 1 } else { 2 }, "{:?}", world.files());
    }
    let same = |text| text;
    check("Foreword/Chats/My plans.md", same, "Foreword/Chats/My plans.md");
    check("Foreword/Chats/2024/plan.MD", same, "Foreword/Chats/2024/plan.MD");
    check("Projects/Week/20240923_201800__Plan_the_week.md", same, "Projects/Week/20240923_201800__Plan_the_week.md");
    check("plan.md", |text| text.replace('\n', "\r\n"), "plan.md");
    // Another program dropped our comment.
    let without_comment = |text: String| [text.split_once("<!--").unwrap().0, text.split_once("-->\n").unwrap().1].concat();
    check("plan.md", without_comment, "plan.md");
    check("plan.md", |text| text.split_once("---\n\n").unwrap().1.to_owned(), "plan.md");
    // Neither in the trash nor as something that is no note.
    check(".trash/20240923_201800__Plan_the_week.md", same, NAME);
    check("20240923_201800__Plan_the_week.txt", same, NAME);
    // Another Session by its name, although the epoch is the same.
    check("20240923_201800__Plan.md", |text| text.replace("s-1", "s-2"), NAME);
}

#[test]
fn the_place_of_a_moved_file_may_be_taken() {
    let mut world = World::saved();
    world.rename(NAME, "moved.md");
    let other = world.read("moved.md").replace("s-1", "s-2");
    world.write(NAME, &other);
    world.say("More");
    assert_eq!(world.save(), Edit::None);
    assert_eq!((world.path(), world.read(NAME)), ("moved.md", other));

    // A copy is not the file as long as that is there; later the one nobody touched counts.
    let mut world = World::saved();
    let text = world.read(NAME);
    world.write("A copy.md", &text.replace("The answer", "My answer"));
    world.rename(NAME, "Z.md");
    world.say("More");
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.path(), "Z.md");
}

#[test]
fn a_hand_edit_is_taken_over() {
    fn check((from, to): (&str, &str), expect: impl Fn(&mut Transcript)) {
        let mut world = World::saved();
        world.edit(from, to);
        world.say("More");
        let mut merged = world.ours.clone();
        expect(&mut merged);
        if merged == world.ours {
            assert_eq!(world.save(), Edit::None);
        } else {
            assert_eq!(world.save(), Edit::Merged(merged.clone()), "{from:?}");
        }
        world.ours = merged;
        world.say("Still more");
        assert_eq!(world.save(), Edit::None);
        assert_eq!(world.files(), [NAME]);
    }
    check(("**ai**: The answer to: Plan", "**ai**: My own answer to: Plan"), |t| {
        t.messages[1].text = "My own answer to: Plan the week".to_owned();
    });
    check(("\n\ntags:", "\ncolour: red\ntags:"), |t| t.extra = Extra::new("colour: red"));
    check(("\n\ntags:", "\ntopic: Mine\ntags:"), |t| t.topic = Some("Mine".to_owned()));
    check(("20:18:01]\n", "20:18:01]\n\n**user**: by hand"), |t| t.messages.insert(2, Entry::new(Role::User, "by hand")));
    check(("---\n\n<!--", "---\n\n\n<!--"), |_| ());
}

#[test]
fn a_hand_edit_that_cannot_be_taken_over_is_kept_beside() {
    fn check((from, to): (&str, &str), change: impl Fn(&mut World)) {
        let mut world = World::saved();
        world.say("Second");
        assert_eq!(world.save(), Edit::None);
        let theirs = world.edit(from, to);
        change(&mut world);
        let before = world.known.clone();
        assert_eq!(world.save(), Edit::KeptBeside(NAME.to_owned()), "{from:?}");
        let second = NAME.replace(".md", "_2.md");
        assert_eq!((world.path(), world.read(NAME)), (second.as_str(), theirs.clone()));

        // A kill right after it leaves no third file.
        world.known = before;
        assert_eq!(world.save(), Edit::KeptBeside(NAME.to_owned()));
        world.say("Third");
        assert_eq!(world.save(), Edit::None);
        assert_eq!(world.read(NAME), theirs);
        assert_eq!(world.files(), [NAME, &second]);
    }
    check(("**user**: Second", "**user**: between\n\n**user**: Second"), |_| ());
    check(("**user**: Second\n[Timestamp: 2024/09/23 20:18:02]\n\n", ""), |world| world.say("Third"));
    // Both sides changed something.
    check(("**ai**: The answer to: Plan", "**ai**: Plan"), |world| world.ours.messages[1].text = "ours".to_owned());
    check(("**ai**: The answer to: Plan", "**ai**: Plan"), |world| world.ours.messages.truncate(2));
}

#[test]
fn a_file_that_is_no_text_or_no_chat_any_more_is_left_alone() {
    for bytes in [&b"\xff\xfe\x00"[..], b"a\xffb", b"", b"# My notes on that chat"] {
        let mut world = World::saved();
        fs::write(world.at(NAME), bytes).unwrap();
        world.say("More");
        assert_eq!(world.save(), Edit::KeptBeside(NAME.to_owned()));
        assert_eq!(fs::read(world.at(NAME)).unwrap(), bytes);
    }
}

/// The file was written, and the program killed before it remembered that.
#[test]
fn a_kill_before_the_file_is_remembered_costs_nothing() {
    let mut world = World::saved();
    world.known = None;
    assert_eq!(world.save(), Edit::None);
    let first = world.known.clone();
    world.say("Second");
    assert_eq!(world.save(), Edit::None);
    world.known = first;
    world.say("Third");
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.files(), [NAME]);

    // What a person changed since is not lost either.
    world.edit("\n\ntags:", "\ncolour: red\ntags:");
    world.known = None;
    let Edit::Merged(merged) = world.save() else { panic!("not merged") };
    assert_eq!(merged.extra, Extra::new("colour: red"));
    let theirs = world.edit("**ai**: The answer to: Third", "**ai**: theirs");
    world.known = None;
    assert_eq!(world.save(), Edit::KeptBeside(NAME.to_owned()));
    assert_eq!(world.read(NAME), theirs);
}

#[test]
fn another_time_zone_is_no_hand_edit() {
    let mut world = World::saved();
    world.chats.tz = TimeZone::get("Asia/Tokyo").unwrap();
    world.edit("\n\ntags:", "\ncolour: red\ntags:");
    world.say("More");
    let merged = Transcript { extra: Extra::new("colour: red"), ..world.ours.clone() };
    assert_eq!(world.save(), Edit::Merged(merged));
}

#[test]
fn sessions_of_one_name_have_files_of_their_own() {
    let mut world = World::saved();
    let mut paths = vec![NAME.to_owned()];
    for number in 2..5 {
        world.ours.session = Some(format!("s-{number}"));
        world.known = None;
        assert_eq!(world.save(), Edit::None);
        paths.push(NAME.replace(".md", &format!("_{number}.md")));
    }
    assert_eq!(world.files(), paths);

    // An unnamed one of the same second, and a note that happens to have the name.
    let mut world = World::new();
    world.write(NAME, "# Mine");
    world.ours.session = None;
    assert_eq!(world.save(), Edit::None);
    assert_eq!((world.path(), world.read(NAME).as_str()), (&*NAME.replace(".md", "_2.md"), "# Mine"));
}

#[test]
fn a_deleted_file_comes_back_with_the_next_message() {
    let mut world = World::saved();
    fs::remove_dir_all(world.at("Foreword")).unwrap();
    world.say("More");
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.files(), [NAME]);
    // Whatever a damaged store says.
    for path in ["", "..", "../x.md", "/etc/passwd", "a\0b", "Foreword", ".", "Foreword/Chats/../../x.md"] {
        world.known.as_mut().unwrap().path = path.to_owned();
        assert_eq!(world.save(), Edit::None, "{path}");
        assert_eq!(world.path(), NAME);
    }
}
