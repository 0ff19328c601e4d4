//! The cost of a request in USD.

use foreword_core::tokens::Tokens;

use crate::model::{Model, PER, Prices};
use crate::usage::CacheUse;

/// The cost of a prompt with the given cache use, including the surcharge for long prompts.
pub fn cost(model: &Model, used: &CacheUse) -> f64 {
    let Some(prices) = model.prices else {
        return 0.0;
    };
    let short = used.write - used.write_long;
    let sum =
        used.read * prices.read() + short * prices.write() + used.write_long * prices.write_long() + used.uncached * prices.input;
    sum / PER * input_factor(&prices, used.total())
}

/// The cost of a prompt without a cache.
pub fn uncached_cost(model: &Model, total: Tokens) -> f64 {
    let used = CacheUse { uncached: total, ..CacheUse::default() };
    cost(model, &used)
}

/// The cost of a reply to a prompt of `input` tokens.
pub fn output_cost(model: &Model, input: Tokens, output: Tokens) -> f64 {
    let Some(prices) = model.prices else {
        return 0.0;
    };
    let factor = match prices.long {
        Some(long) if input.0 > long.over => long.output,
        _ => 1.0,
    };
    output * prices.output / PER * factor
}

fn input_factor(prices: &Prices, total: Tokens) -> f64 {
    match prices.long {
        Some(long) if total.0 > long.over => long.input,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ModelTable;

    #[test]
    fn prices_by_hand() {
        let table = ModelTable::builtin().unwrap();
        let check = |name: &str, [read, write, write_long, uncached]: [u64; 4], expect: f64| {
            let used =
                CacheUse { read: Tokens(read), write: Tokens(write), write_long: Tokens(write_long), uncached: Tokens(uncached) };
            let found = cost(&table.find(name).unwrap(), &used);
            assert!((found - expect).abs() < 1e-12, "{name}: {found}, not {expect}");
        };
        check("gpt-6.1-sol", [12_000, 3_000, 0, 0], 0.0012 + 0.0075);
        check("gpt-6.1-sol", [200_000, 0, 0, 72_001], 2.0 * (0.02 + 0.144_002));
        check("gpt-5.4", [1_000, 0, 0, 1_000], 0.000_25 + 0.0025);
        check("claude-opus-5-5", [0, 3_000, 1_000, 0], 0.008 + 0.010);
        check("claude-haiku-5-5", [0, 0, 0, 100_001], 5.0 * 0.010_000_1);
        check("llama.cpp", [0, 0, 0, 1_000_000], 0.0);
        let sol = table.find("gpt-6.1-sol").unwrap();
        assert!((uncached_cost(&sol, Tokens(1_000)) - 0.002).abs() < 1e-12);
        assert!((output_cost(&sol, Tokens(300_000), Tokens(1_000)) - 0.015).abs() < 1e-12);
    }
}
