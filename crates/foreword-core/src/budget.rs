//! The budget: a planner that decides which content fits a request.
//!
//! Candidates are in a fixed order, most important first. They are taken until the first one that does not fit. That one is cut to
//! the remaining room if possible, and all others are left out. Skipping a large candidate for a smaller one would use more of the
//! room, but a larger budget could then remove something that a smaller one keeps. Taking a prefix keeps the planner monotone: with
//! more room, everything that was included stays, and a new candidate never affects those before it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::layer::LayerId;
use crate::tokens::Tokens;

/// The token budget of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The limit for the whole prompt.
    pub prompt: Tokens,
    /// Reserved for the reply.
    pub reply: Tokens,
    /// The limit for one item. If unset, an item may be as large as the prompt, or half of it once not everything fits.
    pub item: Option<Tokens>,
    /// The limit for one tool output in characters, including its marker.
    pub output_chars: usize,
    /// Limits for the outputs of single tools.
    pub output_chars_by_tool: BTreeMap<String, usize>,
    /// Limits for single layers: L2, L3 and L4.
    pub layers: BTreeMap<LayerId, Tokens>,
    /// The target size of a fold, as a share of the prompt.
    pub low_water: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            prompt: Tokens(8000),
            reply: Tokens(1000),
            item: None,
            output_chars: 8000,
            output_chars_by_tool: BTreeMap::new(),
            layers: BTreeMap::new(),
            low_water: 2.0 / 3.0,
        }
    }
}

impl Budget {
    /// The size limit of one item.
    pub fn item_cap(&self) -> Tokens {
        self.item.unwrap_or(self.prompt)
    }

    /// The size limit of one item if not everything fits, so that one huge item does not push out the rest.
    pub fn tight_item_cap(&self) -> Tokens {
        let turn = self.layers.get(&LayerId::L3).map_or(self.prompt, |cap| self.prompt.min(*cap));
        self.item.unwrap_or(Tokens(turn.0 / 2))
    }

    /// The limit for an output of `tool` in characters.
    pub fn output_cap(&self, tool: &str) -> usize {
        self.output_chars_by_tool.get(tool).copied().unwrap_or(self.output_chars)
    }

    /// The target size of a fold.
    pub fn low_water_mark(&self) -> Tokens {
        self.low_water_of(self.prompt)
    }

    fn low_water_of(&self, room: Tokens) -> Tokens {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Tokens((room.0 as f64 * self.low_water.clamp(0.0, 1.0)) as u64)
    }
}

/// How far a candidate may fill the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The whole budget: for what this turn needs.
    Budget,
    /// The whole budget, without counting against the low-water mark, so that what is kept of earlier turns does not depend on it.
    Beyond,
    /// The low-water mark: for content of earlier turns, so that the next fold is not needed soon.
    LowWater,
}

/// Content that may be cut or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its layer.
    pub layer: LayerId,
    /// Its size in tokens.
    pub tokens: Tokens,
    /// Whether a part of it is useful.
    pub cuttable: bool,
    /// How far it may fill the prompt.
    pub limit: Limit,
}

/// The decision about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Included in full.
    Full,
    /// Cut to this size.
    Cut(Tokens),
    /// Left out.
    Out,
}

/// Items are not cut to less than this.
const LEAST_CUT: Tokens = Tokens(32);

/// Content that cannot be left out, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mandatory {
    /// The tool list.
    pub tools: Tokens,
    /// System prompt, memory, project, rules.
    pub l1: Tokens,
    /// The user's message and the lines around it.
    pub l5: Tokens,
    /// The current step's directive.
    pub directive: Tokens,
    /// The open tool calls of the running turn.
    pub open_calls: Tokens,
    /// Content that is already in the prompt and not up for a decision.
    pub standing: Tokens,
    /// Headings and room reserved for seams. They do not count against the low-water mark.
    pub frames: Tokens,
}

impl Mandatory {
    /// The sum.
    pub fn total(&self) -> Tokens {
        self.tools + self.l1 + self.l5 + self.directive + self.open_calls + self.standing + self.frames
    }

    /// The nonzero sizes, the largest first.
    fn parts(&self) -> String {
        let mut parts = [
            ("the message", self.l5),
            ("system prompt and rules", self.l1),
            ("list of tools", self.tools),
            ("instructions for this step", self.directive),
            ("tool calls without results", self.open_calls),
            ("text already in the prompt", self.standing),
        ];
        parts.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
        let shown = parts.iter().filter(|(_, tokens)| *tokens > Tokens::ZERO);
        shown.map(|(name, tokens)| format!("{name} {tokens}")).collect::<Vec<_>>().join(", ")
    }
}

/// The content that cannot be left out exceeds the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request does not fit the budget of {budget} tokens and was not sent: {} tokens cannot be left out ({}). Shorten the largest \
     of these, or raise the budget",
    mandatory.total(), mandatory.parts()
)]
pub struct OverBudget {
    /// The sizes of that content.
    pub mandatory: Mandatory,
    /// The budget.
    pub budget: Tokens,
}

/// Decides about each candidate.
pub fn plan(budget: &Budget, mandatory: Mandatory, candidates: &[Candidate]) -> Result<Vec<Share>, OverBudget> {
    let mut used = mandatory.total();
    if used > budget.prompt {
        return Err(OverBudget { mandatory, budget: budget.prompt });
    }
    let mut beyond = mandatory.frames;
    let mut used_by_layer: BTreeMap<LayerId, Tokens> = BTreeMap::new();
    let mut closed = false;
    let mut closed_layers: Vec<LayerId> = Vec::new();
    let mut shares = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        if closed || closed_layers.contains(&candidate.layer) {
            shares.push(Share::Out);
            continue;
        }
        let of_layer = used_by_layer.entry(candidate.layer).or_default();
        let global = match candidate.limit {
            Limit::Budget | Limit::Beyond => budget.prompt - used,
            Limit::LowWater => (budget.low_water_mark() + beyond).min(budget.prompt) - used,
        };
        let layer = budget.layers.get(&candidate.layer).map(|cap| match candidate.limit {
            Limit::Budget | Limit::Beyond => *cap - *of_layer,
            Limit::LowWater => budget.low_water_of(*cap) - *of_layer,
        });
        let room = layer.map_or(global, |layer| layer.min(global));
        let share = if candidate.tokens <= room {
            Share::Full
        } else if candidate.cuttable && room >= LEAST_CUT {
            Share::Cut(room)
        } else {
            Share::Out
        };
        if share != Share::Full {
            if candidate.tokens > global {
                closed = true;
            } else {
                closed_layers.push(candidate.layer);
            }
        }
        let taken = match share {
            Share::Full => candidate.tokens,
            Share::Cut(tokens) => tokens,
            Share::Out => Tokens::ZERO,
        };
        used += taken;
        if candidate.limit == Limit::Beyond {
            beyond += taken;
        }
        *of_layer += taken;
        shares.push(share);
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(prompt: u64) -> Budget {
        Budget { prompt: Tokens(prompt), ..Budget::default() }
    }

    fn fixed(tokens: u64) -> Candidate {
        Candidate { layer: LayerId::L3, tokens: Tokens(tokens), cuttable: false, limit: Limit::Budget }
    }

    #[test]
    fn a_prefix_is_taken() {
        let shares = plan(&budget(100), Mandatory::default(), &[fixed(40), fixed(70), fixed(10)]).unwrap();
        assert_eq!(shares, [Share::Full, Share::Out, Share::Out]);
        let cut = Candidate { cuttable: true, ..fixed(70) };
        let shares = plan(&budget(100), Mandatory::default(), &[fixed(40), cut, fixed(10)]).unwrap();
        assert_eq!(shares, [Share::Full, Share::Cut(Tokens(60)), Share::Out]);
    }

    #[test]
    fn low_water_holds_back_what_is_kept() {
        let kept = Candidate { limit: Limit::LowWater, ..fixed(30) };
        let shares = plan(&budget(100), Mandatory::default(), &[fixed(40), kept]).unwrap();
        assert_eq!(shares, [Share::Full, Share::Out]);
    }

    #[test]
    fn what_is_kept_does_not_depend_on_what_goes_beyond_the_mark() {
        let (kept, beyond) = (Candidate { limit: Limit::LowWater, ..fixed(60) }, Candidate { limit: Limit::Beyond, ..fixed(30) });
        let shares = plan(&budget(100), Mandatory::default(), &[beyond, kept]).unwrap();
        assert_eq!(shares, [Share::Full, Share::Full]);
        let shares = plan(&budget(100), Mandatory { frames: Tokens(11), ..Mandatory::default() }, &[beyond, kept]).unwrap();
        assert_eq!(shares, [Share::Full, Share::Out], "never more than the budget");
    }

    #[test]
    fn a_full_layer_closes_that_layer_only() {
        let mut budget = budget(100);
        budget.layers.insert(LayerId::L3, Tokens(20));
        let history = Candidate { layer: LayerId::L4, ..fixed(10) };
        let shares = plan(&budget, Mandatory::default(), &[fixed(15), fixed(10), fixed(1), history]).unwrap();
        assert_eq!(shares, [Share::Full, Share::Out, Share::Out, Share::Full]);
    }

    #[test]
    fn what_may_not_be_dropped_is_named() {
        let mandatory = Mandatory { l1: Tokens(90), l5: Tokens(20), ..Mandatory::default() };
        let error = plan(&budget(100), mandatory, &[]).unwrap_err().to_string();
        assert!(error.contains("(system prompt and rules 90, the message 20)") && error.contains("budget of 100"), "{error}");
    }

    fn candidates() -> impl proptest::strategy::Strategy<Value = Vec<Candidate>> {
        let one = (0..3_usize, 0..200_u64, any::<bool>(), 0..3_usize).prop_map(|(layer, tokens, cuttable, limit)| Candidate {
            layer: LayerId::ALL[layer + 1],
            tokens: Tokens(tokens),
            cuttable,
            limit: [Limit::Budget, Limit::Beyond, Limit::LowWater][limit],
        });
        proptest::collection::vec(one, 0..20)
    }

    fn worth(share: Share, candidate: &Candidate) -> Tokens {
        match share {
            Share::Full => candidate.tokens + Tokens(1),
            Share::Cut(tokens) => tokens,
            Share::Out => Tokens::ZERO,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

        #[test]
        fn monotone_in_the_budget(candidates in candidates(), small in 1..2000_u64, more in 0..2000_u64, cap in proptest::option::of(0..300_u64)) {
            let (mut tight, mut wide) = (budget(small), budget(small + more));
            for budget in [&mut tight, &mut wide] {
                budget.layers.extend(cap.map(|cap| (LayerId::L2, Tokens(cap))));
            }
            let tight = plan(&tight, Mandatory::default(), &candidates).unwrap();
            let wide = plan(&wide, Mandatory::default(), &candidates).unwrap();
            for ((tight, wide), candidate) in tight.into_iter().zip(wide).zip(&candidates) {
                prop_assert!(worth(tight, candidate) <= worth(wide, candidate));
            }
        }

        #[test]
        fn a_new_candidate_never_moves_one_before_it(candidates in candidates(), at in 0..20_usize, tokens in 0..300_u64, room in 1..2000_u64) {
            let at = at.min(candidates.len());
            let mut more = candidates.clone();
            more.insert(at, fixed(tokens));
            let without = plan(&budget(room), Mandatory::default(), &candidates).unwrap();
            let with = plan(&budget(room), Mandatory::default(), &more).unwrap();
            prop_assert_eq!(&without[..at], &with[..at]);
        }

        #[test]
        fn bounded(candidates in candidates(), room in 1..2000_u64) {
            let shares = plan(&budget(room), Mandatory::default(), &candidates).unwrap();
            let used: Tokens = shares.into_iter().zip(&candidates).map(|(share, candidate)| match share {
                Share::Full => candidate.tokens,
                Share::Cut(tokens) => tokens,
                Share::Out => Tokens::ZERO,
            }).sum();
            prop_assert!(used <= Tokens(room));
        }
    }
}
