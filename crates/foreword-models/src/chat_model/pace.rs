//! Whether one thread writes faster than all of them: on a busy machine, threads that wait for each other for every token lose more than they
//! gain. How many there are never changes what is written.

use std::time::Duration;

/// Tokens after which the slower crew is tried again.
const TRY: usize = 64;

/// Who evaluates a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crew {
    /// All threads.
    All,
    /// One alone.
    One,
}

/// How long a token took lately, by crew.
#[derive(Default)]
pub(super) struct Pace {
    all: Option<Duration>,
    one: Option<Duration>,
    tokens: usize,
}

impl Pace {
    /// Who evaluates the next token.
    pub(super) fn next(&self) -> Crew {
        let (Some(all), Some(one)) = (self.all, self.one) else {
            return if self.all.is_none() { Crew::All } else { Crew::One };
        };
        let all_is_faster = all <= one;
        let try_other = self.tokens % TRY == TRY - 1;
        if all_is_faster == try_other { Crew::One } else { Crew::All }
    }

    /// To be told how long that crew took.
    pub(super) fn took(&mut self, crew: Crew, time: Duration) {
        let lately = match crew {
            Crew::All => &mut self.all,
            Crew::One => &mut self.one,
        };
        // One slow token is no reason to change; one that was fast shows what can be done.
        *lately = Some(lately.map_or(time, |before| time.min((3 * before + time) / 4)));
        self.tokens += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `tokens` tokens all threads evaluate, where they take `all` and one alone `one`.
    fn run(pace: &mut Pace, tokens: usize, all: u64, one: u64) -> usize {
        let mut together = 0;
        for _ in 0..tokens {
            let crew = pace.next();
            together += usize::from(crew == Crew::All);
            pace.took(crew, Duration::from_millis(if crew == Crew::All { all } else { one }));
        }
        together
    }

    #[test]
    fn the_faster_crew_does_the_work() {
        fn check(all: u64, one: u64, expect: usize) {
            assert_eq!(run(&mut Pace::default(), 2 * TRY, all, one), expect, "{all} {one}");
        }
        // Each is tried once at first, and the slower one once in a while.
        check(5, 10, 2 * TRY - 3);
        check(5, 5, 2 * TRY - 3);
        check(10, 5, 3);
    }

    #[test]
    fn a_change_is_noticed() {
        let mut pace = Pace::default();
        assert!(run(&mut pace, 1_000, 5, 10) > 900);
        assert!(run(&mut pace, 1_000, 500, 10) < 100);
        assert!(run(&mut pace, 1_000, 5, 10) > 500);
    }
}
