//! What the system refuses, and what a kill leaves.

use std::fs;
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn nothing_is_left_but_the_files() {
    let mut world = World::saved();
    let old = SystemTime::now() - Duration::from_hours(2);
    for (name, age) in [(".foreword-a.tmp", old), (".foreword-b.tmp", SystemTime::now()), (".other.tmp", old), ("x.tmp", old)] {
        world.write(&format!("Foreword/Chats/{name}"), "");
        fs::File::options().write(true).open(world.at("Foreword/Chats").join(name)).unwrap().set_modified(age).unwrap();
    }
    world.chats = Chats::open(&world.at(""), TimeZone::UTC).unwrap();
    assert_eq!(world.save(), Edit::None);
    let left = ["Foreword/Chats/.foreword-b.tmp", "Foreword/Chats/.other.tmp", NAME, "Foreword/Chats/x.tmp"];
    assert_eq!(world.files(), left);
}

#[test]
fn what_is_in_the_way_is_said_and_stays() {
    let mut world = World::new();
    world.write("Foreword", "a file");
    assert!(matches!(world.try_save(), Err(ChatError::Io { .. })));
    assert_eq!(world.files(), ["Foreword"]);

    let mut world = World::new();
    fs::create_dir_all(world.at(NAME)).unwrap();
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.path(), NAME.replace(".md", "_2.md"));
}

#[test]
fn errors_say_what_to_do() {
    fn check(kind: io::ErrorKind, expect: &str) {
        assert_eq!(ChatError::new("a.md", kind.into()).to_string(), expect);
    }
    let again = "and the next message saves the whole chat";
    let full = "cannot save the chat to \"a.md\": the disk is full";
    check(io::ErrorKind::StorageFull, &format!("{full} (no storage space); free some space, {again}"));
    check(io::ErrorKind::QuotaExceeded, &format!("{full} (quota exceeded); free some space, {again}"));
    let denied = format!("cannot save the chat to \"a.md\": permission denied; allow writing there, {again}");
    check(io::ErrorKind::PermissionDenied, &denied);
    let read_only =
        format!("cannot save the chat to \"a.md\": read-only filesystem or storage medium; allow writing there, {again}");
    check(io::ErrorKind::ReadOnlyFilesystem, &read_only);
    check(io::ErrorKind::NotADirectory, "cannot save the chat to \"a.md\": not a directory");
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_that_leaves_the_vault_is_refused() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::TempDir::new().unwrap();
    for link in ["Foreword", "Foreword/Chats"] {
        let mut world = World::new();
        fs::create_dir_all(world.at(link).parent().unwrap()).unwrap();
        symlink(outside.path(), world.at(link)).unwrap();
        assert!(matches!(world.try_save(), Err(ChatError::Leaves { .. })), "{link}");
    }
    let mut world = World::saved();
    let target = outside.path().join("target.md");
    fs::rename(world.at(NAME), &target).unwrap();
    symlink(&target, world.at(NAME)).unwrap();
    let text = fs::read(&target).unwrap();
    world.say("More");
    assert!(matches!(world.try_save(), Err(ChatError::Leaves { .. })));
    assert_eq!(fs::read(&target).unwrap(), text);
    // A new Session does not write through it, nor over it.
    world.known = None;
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.path(), NAME.replace(".md", "_2.md"));
    assert_eq!(fs::read(&target).unwrap(), text);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);

    // One that stays in the vault is a place like any other.
    let mut world = World::saved();
    world.rename(NAME, "Real/plan.md");
    symlink(world.at("Real/plan.md"), world.at(NAME)).unwrap();
    world.say("More");
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.path(), NAME);
    assert!(world.at(NAME).is_symlink());
}

#[cfg(unix)]
#[test]
fn a_folder_nobody_may_write_to_leaves_the_old_file_whole() {
    use std::os::unix::fs::PermissionsExt;
    let mut world = World::saved();
    let folder = world.at("Foreword/Chats");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let old = world.read(NAME);
    world.say("More");
    // The system's administrator may do everything.
    if tempfile::tempfile_in(&folder).is_err() {
        assert!(matches!(world.try_save(), Err(ChatError::Denied { .. })));
        assert_eq!(world.read(NAME), old);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(world.at(NAME), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(world.save(), Edit::None);
    assert_eq!(fs::metadata(world.at(NAME)).unwrap().permissions().mode() & 0o777, 0o640);
}

/// So deep that the short name still fits into a path of 4,095 bytes and the long one does not.
#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_too_long_falls_back() {
    let top = tempfile::TempDir::new().unwrap();
    let mut root = top.path().canonicalize().unwrap();
    let length = |path: &std::path::Path| path.as_os_str().len();
    let wanted = 4095 - "/Foreword/Chats/".len() - 40;
    while wanted - length(&root) > 220 {
        root.push("d".repeat(100));
    }
    root.push("d".repeat(wanted - length(&root) - 1));
    fs::create_dir_all(&root).unwrap();
    let chats = Chats::open(&root, TimeZone::UTC).unwrap();
    let ours = Transcript { epoch_ms: EPOCH, session: Some("s".to_owned()), ..Transcript::default() };
    let ours = Transcript { messages: vec![Entry::new(Role::User, "long ".repeat(30))], ..ours };
    let Outcome { saved, edit } = chats.save(&ours, None).unwrap();
    assert_eq!((saved.path.as_str(), &edit), ("Foreword/Chats/chat-1727122680123.md", &Edit::None));
    assert_eq!(chats.save(&ours, None).unwrap().saved, saved);
    let other = Transcript { session: Some("other".to_owned()), ..ours };
    assert_eq!(chats.save(&other, None).unwrap().saved.path, "Foreword/Chats/chat-1727122680123_2.md");
}
