//! Files that programs read as instructions. A model that writes such a file tells later requests what to do, its own or another agent's, so
//! it may write none of them, whatever a person approves.

use foreword_text::hidden::{is_hidden, is_style_of};
use unicode_normalization::UnicodeNormalization as _;

/// Files that some agent reads, in whatever folder they are, without their ending.
const FILES: [&str; 19] = [
    "agents",
    "agents.local",
    "agents.override",
    "agent",
    "claude",
    "claude.local",
    "codex",
    "conventions",
    "copilot-instructions",
    "crush",
    "cursorrules",
    "gemini",
    "iflow",
    "llms",
    "qwen",
    "replit",
    "skill",
    "warp",
    "windsurfrules",
];

/// Folders in which every file is read by some agent or by Foreword.
const FOLDERS: [&str; 4] = ["foreword", "assistantmd", "skills", "contexttemplates"];

/// Whether the file at `path`, which is relative to a vault, would be read as instructions, as memory or as a chat. Names are compared as a disk
/// may compare them: without regard to case, to composed characters, or to blanks and dots at their end. Names that begin with a dot count
/// too: they are settings of some program.
pub fn is_instruction(path: &str) -> bool {
    let path = folded(path);
    let mut names =
        path.split(['/', '\\']).map(|name| name.trim().trim_end_matches(['.', ' '])).filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let is_file = names.peek().is_none();
        let known = if is_file { FILES.contains(&stem(name)) } else { FOLDERS.contains(&name) };
        if name.starts_with('.') || known || (is_file && name.ends_with(".instructions.md")) {
            return true;
        }
    }
    false
}

/// Without the ending of a note.
fn stem(name: &str) -> &str {
    let name = [".md", ".mdc", ".txt", ".markdown"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    name.trim_end_matches(['.', ' '])
}

fn folded(path: &str) -> String {
    let plain: String = path.nfkc().filter(|c| !is_hidden(*c)).collect();
    plain.to_uppercase().to_lowercase().nfkc().collect()
}

/// The first character of a path that a reader would not see, or that would show them another path.
pub fn hidden_character(path: &str) -> Option<char> {
    let mut before = None;
    path.chars().find(|&c| {
        let is_bad = is_hidden(c) && !is_style_of(before, c);
        before = Some(c);
        is_bad
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_read_as_instructions() {
        let check = |path: &str, expect: bool| assert_eq!(is_instruction(path), expect, "{path:?}");
        for ours in [
            "Foreword/Agents/x/rules/y.md",
            "Foreword/Agents/x/prompt.md",
            "Foreword/Memory/memory.md",
            "Foreword/Projects/p.md",
            "Foreword/Chats/a.md",
            "Foreword/ContextTemplates/goal-oriented.md",
            "AssistantMD/ContextTemplates/goal-oriented.md",
            "assistantmd/contexttemplates/sub/deep.md",
            "./Foreword/a.md",
            "FOREWORD/a.md",
            "foreword /a.md",
            "foreword./a.md",
            "Ｆｏｒｅｗｏｒｄ/a.md",
            "Fore\u{200b}word/a.md",
            "a/../Foreword/a.md",
            "sub/Foreword/Agents/a.md",
        ] {
            check(ours, true);
        }
        for agents in [
            "CLAUDE.md",
            "claude.md",
            "Claude.MD",
            "a/b/CLAUDE.md",
            "CLAUDE.local.md",
            "AGENTS.md",
            "AGENTſ.md",
            "AGENTS.override.md",
            "AGENT.md",
            "GEMINI.md",
            "GEM\u{131}N\u{131}.md",
            "QWEN.md",
            "WARP.md",
            "CONVENTIONS.md",
            "SKILL.md",
            "skills/x/S\u{212a}ILL.md",
            "skills/x/reference.md",
            "llms.txt",
            "copilot-instructions.md",
            "CLAUDE.md.",
            "CLAUDE.md ",
            "CLAUDE .md",
            "CLAUDE",
            "CLA\u{ad}UDE.md",
            "ＣＬＡＵＤＥ.md",
            "python.instructions.md",
            ".cursorrules",
            ".cursor/rules/a.mdc",
            ".windsurfrules",
            ".windsurf/rules/a.md",
            ".clinerules",
            ".clinerules/a.md",
            ".roo/rules/a.md",
            ".github/copilot-instructions.md",
            ".github/instructions/a.instructions.md",
            ".claude/commands/a.md",
            ".codex/a.md",
            ".goosehints",
            ".junie/guidelines.md",
            ".aider.conf.yml",
            ".obsidian/app.json",
            ".git/config",
            ".vscode/settings.json",
            "a/.hidden/b.md",
            "a\\.git\\config",
            ".foreword/mcp.json",
        ] {
            check(agents, true);
        }
        for note in [
            "Kitchen/Bread.md",
            "My agents.md notes.md",
            "Agents/Smith.md",
            "Claude Monet.md",
            "Gemini season.md",
            "Skill tree.md",
            "A foreword.md",
            "Foreword.md",
            "Conventions of trade/2024.md",
            "v1.2 notes.md",
            "Über/Äpfel.md",
            "日記/今日.md",
        ] {
            check(note, false);
        }
    }

    #[test]
    fn hidden_characters_in_paths() {
        let check = |path: &str, expect: Option<char>| assert_eq!(hidden_character(path), expect, "{path:?}");
        let bad = ['\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}']
            .into_iter()
            .chain(['\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{feff}', '\u{ad}', '\u{61c}', '\u{2060}'])
            .chain([
                '\u{e0001}',
                '\u{e0041}',
                '\u{e007f}',
                '\u{e0100}',
                '\u{fe00}',
                '\u{fe0f}',
                '\u{180e}',
                '\u{3164}',
                '\u{2028}',
            ])
            .chain(['\0', '\u{1b}', '\r', '\n', '\t', '\u{8}', '\u{7f}', '\u{80}', '\u{9b}', '\u{2029}', '\u{115f}', '\u{34f}']);
        for c in bad {
            check(&format!("Kitchen/Bre{c}ad.md"), Some(c));
        }
        for good in ["Kitchen/Bread.md", "Ünïcode.md", "e\u{301}.md", "👍🏽.md", "\u{2600}\u{fe0f} Sun.md", "日記.md", "שלום.md"]
        {
            check(good, None);
        }
    }
}
