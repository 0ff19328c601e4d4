use foreword_core::select::{Select, Strategy};
use foreword_core::settings::HistoryPolicy;
use foreword_core::tokens::Tokens;

use super::*;
use crate::session::Setup;
use foreword_vault_tools::find::NOTES;

fn toml(text: &str) -> SessionSettings {
    agent_file("agent.toml", text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn setup(settings: &SessionSettings) -> Setup {
    let mut setup = Setup::new("s", Some("claude-sonnet-5"), Layout::Log, 0, None).unwrap();
    setup.set(settings, None).unwrap();
    setup
}

#[test]
fn what_is_wrong_in_an_agent_file_is_told_with_its_line_and_the_nearest_key() {
    let check = |text: &str, line: Option<usize>, expect: &str| {
        let error = agent_file("Foreword/Agents/cook/agent.toml", text).unwrap_err();
        assert_eq!(error.line, line, "{error}: {text}");
        assert!(error.what.contains(expect), "{error}, not {expect:?}");
        assert!(error.to_string().starts_with("Foreword/Agents/cook/agent.toml"), "{error}");
    };
    check("[settings]\nlayuot = \"log\"", Some(2), "unknown key `layuot` (did you mean `layout`?)");
    check("[settings.budget]\n\nprompt_token = 3", Some(3), "(did you mean `prompt_tokens`?)");
    check("[settings]\nhistory = { stategy = \"full\" }", Some(2), "(did you mean `strategy`?)");
    check("[search]\ntop_m = 3", Some(2), "valid keys: preset, strategy, top_k, top_n");
    check("[search.note]\ntop_n = 3", Some(1), "(did you mean `notes`?)");
    check("name = \"a\"\n[setings]\nlayout = \"log\"", Some(2), "(did you mean `settings`?)");
    check("[settings]\nlayout = \"book\"", Some(2), "unknown variant `book`");
    check("[search]\ntop_n = \"many\"", Some(2), "invalid type");
    check("[search]\npreset = \"greedy\"", Some(2), "expected one of `aggressive`, `normal`, `conservative`");
    check("[settings.budget]\nlow_water = 3", Some(2), "expected a number from 0 to 1");
    check("[settings.history]\nstrategy = \"strip\"\nmessages = 3", Some(3), "only for the strategy window, not for strip");
    check("[settings.budget.layer_tokens]\nL1_SYSTEM = 3", Some(2), "L1 and L5 cannot be limited");
    check("\n[search.tools]\nfloor = 2", Some(3), "search.tools.floor: 2; expected a score from 0 to 1");
    check("[settings.search]\ntop_n = 3\n[search]\ntop_n = 4", Some(1), "use one of them");
}

#[test]
fn flags_count_more_than_the_agent_and_that_more_than_the_configuration() {
    let check = |flags: &str, agent: &str, config: &str, expect: &str| {
        let layers = Layers { flags: toml(flags), agent: toml(agent), config: toml(config) };
        let (merged, refused) = layers.merged();
        assert_eq!(refused, [""; 0]);
        assert_eq!(serde_json::to_string(&merged).unwrap(), expect);
    };
    check("", "", "", "{}");
    check("", "", "[settings]\nlayout = 'library'", r#"{"layout":"library"}"#);
    check("", "[settings]\nlayout = 'log'", "[settings]\nlayout = 'library'", r#"{"layout":"log"}"#);
    check("[settings]\nlayout = 'library'", "[settings]\nlayout = 'log'", "", r#"{"layout":"library"}"#);
    // Key by key.
    check(
        "[settings.budget]\nprompt_tokens = 9000",
        "[settings.budget]\nlow_water = 0.5",
        "[settings.budget]\nprompt_tokens = 5000\nitem_tokens = 100",
        r#"{"budget":{"prompt_tokens":9000,"item_tokens":100,"low_water":0.5}}"#,
    );
    // A history with another strategy counts alone; one with the same is filled up.
    let strip = "[settings.history]\nstrategy = 'strip'\nkeep_runs = 4";
    check("[settings.history]\nstrategy = 'window'", strip, "", r#"{"history":{"strategy":"window"}}"#);
    check(
        "[settings.history]\nstrategy = 'strip'\nsummary_tokens = 100",
        strip,
        "",
        r#"{"history":{"strategy":"strip","keep_runs":4,"summary_tokens":100}}"#,
    );
    // What is said for one kind counts more than what is said for all, in the same place; a preset stands for its numbers.
    check(
        "[search]\ntop_n = 7",
        "",
        "[search.notes]\ntop_n = 3\ntop_k = 9",
        r#"{"search":{"notes":{"top_k":9,"top_n":7},"items":{"top_n":7},"tools":{"top_n":7}}}"#,
    );
    check(
        "[search.tools]\npreset = 'conservative'\ntop_n = 1",
        "",
        "",
        r#"{"search":{"tools":{"top_k":10,"top_n":1,"include_score":0.85,"floor":0.35}}}"#,
    );
}

#[test]
fn a_vault_cannot_loosen_a_limit() {
    let check = |agent: &str, config: &str, expect: &str, refused: &[&str]| {
        let (agent, found) = limited(toml(agent), &toml(config));
        assert_eq!(serde_json::to_string(&agent).unwrap(), expect);
        assert_eq!(found.len(), refused.len(), "{found:?}");
        for (found, expect) in found.iter().zip(refused) {
            assert!(found.contains(expect) && found.contains("only you can allow"), "{found}");
        }
    };
    check(
        "[settings.budget]\nprompt_tokens = 2000",
        "[settings.budget]\nprompt_tokens = 5000",
        r#"{"budget":{"prompt_tokens":2000}}"#,
        &[],
    );
    check(
        "[settings.budget]\nprompt_tokens = 9000\nreply_tokens = 9000\nitem_tokens = 10",
        "[settings.budget]\nprompt_tokens = 5000",
        r#"{"budget":{"prompt_tokens":5000,"reply_tokens":4096,"item_tokens":10}}"#,
        &["budget.prompt_tokens = 9000 exceeds 5000", "budget.reply_tokens = 9000 exceeds 4096"],
    );
    check(
        "[settings.budget]\ntool_output_chars = 90000\ntool_output_chars_by_tool = { readNote = 20000, grep = 20 }",
        "[settings.budget]\ntool_output_chars_by_tool = { readNote = 30000 }",
        r#"{"budget":{"tool_output_chars":8000,"tool_output_chars_by_tool":{"grep":20,"readNote":20000}}}"#,
        &["budget.tool_output_chars = 90000 exceeds 8000"],
    );
    check("[settings.plan]\nsteps = 90", "", r#"{"plan":{"steps":10}}"#, &["plan.steps = 90 exceeds 10"]);
}

#[test]
fn settings_reach_what_a_session_runs_with() {
    let found = setup(&toml(
        "[settings]\nlayout = 'library'\nkeep_outputs = 2\nrecent_runs = 7\npromote_selections = true\ncache_ttl = '1h'\n\
         budget = { prompt_tokens = 3000, reply_tokens = 500, item_tokens = 900, tool_output_chars = 4000, \
         tool_output_chars_by_tool = { grep = 99 }, layer_tokens = { L2_LIBRARY = 700 }, low_water = 0.5 }\n\
         history = { strategy = 'window', messages = 8 }\nplan = { steps = 3 }\n\
         [search]\nstrategy = 'semantic'\n[search.notes]\ntop_n = 9\n[search.tools]\npreset = 'conservative'",
    ));
    let settings = &found.settings;
    let budget = &settings.budget;
    assert_eq!((settings.layout, settings.keep_outputs, settings.recent_runs), (Layout::Library, 2, 7));
    assert_eq!((budget.prompt, budget.reply, budget.item), (Tokens(3000), Tokens(500), Some(Tokens(900))));
    assert_eq!((budget.output_chars, budget.output_cap("grep"), budget.low_water), (4000, 99, 0.5));
    assert_eq!(budget.layers.values().copied().collect::<Vec<_>>(), [Tokens(700)]);
    assert_eq!(settings.history, HistoryPolicy::Window { messages: 8, chars: 80_000, message_chars: 8_000 });
    assert_eq!((settings.plan.steps, settings.plan.step_chars), (3, 500));
    assert_eq!(settings.select, Select { strategy: Strategy::Semantic, ..Select::default() });
    let tools = settings.select_tools.unwrap();
    assert_eq!((tools.strategy, tools.top_k, tools.top_n, tools.floor), (Strategy::Semantic, 10, 2, Some(0.35)));
    assert_eq!(found.select_notes(), Select { strategy: Strategy::Semantic, top_n: 9, ..NOTES });
    // Tools of which nothing is said compete with rules and references.
    assert_eq!(setup(&toml("[search]\ntop_n = 3")).settings.select_tools, None);
}

#[test]
fn later_settings_leave_the_others_as_they_are() {
    let mut found = setup(&toml("[settings]\nbudget = { prompt_tokens = 3000 }\nhistory = { strategy = 'strip' }"));
    found.set(&toml("[settings]\nlayout = 'library'"), None).unwrap();
    assert_eq!((found.settings.layout, found.settings.budget.prompt), (Layout::Library, Tokens(3000)));
    assert!(matches!(found.settings.history, HistoryPolicy::Strip { keep_runs: 2, .. }));
    let said = r#"{"layout":"library","budget":{"prompt_tokens":3000},"history":{"strategy":"strip"}}"#;
    assert_eq!(serde_json::to_string(&found.wanted).unwrap(), said);
    assert_eq!(serde_json::from_str::<SessionSettings>(said).unwrap(), found.wanted);
}

#[test]
fn one_setting_in_a_flag() {
    let check = |written: &str, expect: Result<&str, &str>| match (assignment("--set", written), expect) {
        (Ok(found), Ok(expect)) => assert_eq!(serde_json::to_string(&found).unwrap(), expect),
        (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
        (found, _) => panic!("{written}: {found:?}"),
    };
    check("budget.prompt_tokens=2000", Ok(r#"{"budget":{"prompt_tokens":2000}}"#));
    check("layout = library", Ok(r#"{"layout":"library"}"#));
    // Whether it fits is known once it is joined with what the agent and the configuration say.
    check("history.messages=3", Ok(r#"{"history":{"messages":3}}"#));
    check(
        "history = { strategy = 'managed', template = 'my chat' }",
        Ok(r#"{"history":{"strategy":"managed","template":"my chat"}}"#),
    );
    check("budget.tool_output_chars_by_tool.grep=9", Ok(r#"{"budget":{"tool_output_chars_by_tool":{"grep":9}}}"#));
    check(
        "budgt.prompt_tokens=2000",
        Err("--set budgt.prompt_tokens=2000: budgt.prompt_tokens: unknown key `budgt` (did you mean `budget`?)"),
    );
    check("layout", Err("expected KEY=VALUE"));
    check("budget.low_water=2", Err("expected a number"));
}
