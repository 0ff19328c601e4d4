//! Resolves attachments and shows what they add to a prompt.

use std::collections::BTreeSet;

use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::tokens::{Chars, Tokenizer as _};
use foreword_core::version::{Detail, RenderOptions, Version};
use foreword_text::fence::Fence;
use foreword_vault::agents::{self, Loaded, OnDisk};
pub use foreword_vault::attach::Attachment;
use foreword_vault::attach::Limits;
use foreword_vault::folder::Problem;
use foreword_vault::helpers::Own;
use foreword_vault::index::Vault;
pub use foreword_web::WebError;
use foreword_web::{Fetcher, WebConfig};
use jiff::Zoned;

use foreword_trust::VaultTrust;
use foreword_trust::audit::Audit;
use foreword_trust::places::Places;

/// An attached item as it would be in a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The item's ID.
    pub id: ItemId,
    /// The hash of its content.
    pub hash: Hash,
    /// Its block.
    pub block: String,
    /// Its approximate size in tokens.
    pub tokens: u64,
    /// Its images.
    pub images: Vec<ItemId>,
}

/// The resolved attachments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attached {
    /// Each item once, in the order of the attachments, followed by matching rules.
    pub items: Vec<Shown>,
    /// Problems to show to the user.
    pub problems: Vec<Problem>,
    /// The number of empty attachments.
    pub empty: usize,
}

/// Whether a cached web page may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Yes, if it is recent.
    RecordedSession,
    /// No, fetch it again.
    Fresh,
}

/// The items of attachments.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Each item once, in the order of the attachments.
    pub versions: Vec<Version>,
    /// Problems to show to the user.
    pub problems: Vec<Problem>,
    /// The number of empty attachments.
    pub empty: usize,
}

/// Resolves all attachments.
pub async fn gather(
    vault: &Vault,
    attachments: &[Attachment],
    places: &Places,
    now: &Zoned,
    pages: Pages,
) -> Result<Gathered, WebError> {
    let trust = VaultTrust::open_or_restricted(places, vault.root());
    let config = WebConfig { allow: trust.internal_hosts(vault), ..WebConfig::default() };
    let fetcher = Fetcher::new(config, Some(places.pages()))?;
    let audit = Audit::new(&places.state);
    let own = Own::new(vault, now.clone());
    let mut gathered = Gathered::default();
    let mut paths = BTreeSet::new();
    for attachment in attachments {
        let (versions, problems) = match attachment {
            Attachment::Url(url) => {
                // A log that cannot be written does not keep people from their page.
                audit.url(url, "page");
                page(&fetcher, url, now, pages).await
            }
            local => {
                let found = vault.attach(local, now, Limits::default(), &own);
                (found.versions, found.problems)
            }
        };
        gathered.empty += usize::from(versions.is_empty());
        for problem in problems {
            // A note may be attached and embedded, and each of its queries may fail for the same reason.
            if !gathered.problems.contains(&problem) {
                gathered.problems.push(problem);
            }
        }
        for version in versions {
            if let Detail::Note { path, .. } | Detail::Selection { path, .. } = &version.detail {
                paths.insert(path.clone());
            }
            if !gathered.versions.iter().any(|known| known.id == version.id) {
                gathered.versions.push(version);
            }
        }
    }
    let rules = if trust.instructions(vault) { rules_for(vault, &paths) } else { Vec::new() };
    for rule in rules {
        if !gathered.versions.iter().any(|known| known.id == rule.id) {
            gathered.versions.push(rule);
        }
    }
    Ok(gathered)
}

/// The active note, which is open in the user's editor.
#[derive(Clone, Debug)]
pub struct ActiveNote {
    /// Its current content and images.
    pub version: Version,
    /// Problems to show to the user.
    pub problems: Vec<Problem>,
}

/// Why a note cannot be the active one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the active note must be one whole note, given by its path or name: {0}")]
pub struct NotActive(String);

/// Reads the active note by name. Only its images are sent.
pub fn active_note(vault: &Vault, name: &str, now: &Zoned) -> Result<ActiveNote, NotActive> {
    let attachment = vault.attachment(name).map_err(|error| NotActive(error.to_string()))?;
    if !matches!(attachment, Attachment::File { part: None, .. }) {
        return Err(NotActive(format!("{name:?} is not a note")));
    }
    let found = vault.attach(&attachment, now, Limits::default(), &Own::new(vault, now.clone()));
    let said = || found.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match found.versions.first() {
        Some(version) => Ok(ActiveNote { version: version.clone(), problems: found.problems.clone() }),
        None => Err(NotActive(said())),
    }
}

/// Shows what attachments would add to a prompt.
pub async fn attach(
    vault: &Vault,
    attachments: &[Attachment],
    places: &Places,
    now: &Zoned,
    pages: Pages,
) -> Result<Attached, WebError> {
    let Gathered { versions, problems, empty } = gather(vault, attachments, places, now, pages).await?;
    let mut fence = Fence::new();
    let items = versions.iter().map(|version| shown(&mut fence, version)).collect();
    Ok(Attached { items, problems, empty })
}

/// Rules that apply to some files (Cursor's globs, an `AGENTS.md` in a folder) and match these.
fn rules_for(vault: &Vault, paths: &BTreeSet<String>) -> Vec<Version> {
    let Some(files) = OnDisk::new(vault.root()).ok().filter(|_| !paths.is_empty()) else { return Vec::new() };
    let mut imported = Loaded::default();
    imported.join(agents::import(&files, vault.notes().map(|listed| listed.facts.path.as_str())));
    let rules = imported.scopes.iter().filter(|scope| scope.holds_for(paths)).filter_map(|scope| {
        let rule = imported.agent.find(&ItemId::new(Kind::Rule, &scope.rule))?;
        Some(Version::catalogued(&rule))
    });
    rules.collect()
}

/// The largest number of links in a question that are followed.
const MAX_LINKS: usize = 64;

/// The `[[links]]` of a question, as attachments are named.
pub fn links(words: &str) -> impl Iterator<Item = String> {
    let inner = words.split("[[").skip(1).filter_map(|after| after.split_once("]]")).map(|(link, _)| link);
    let inner = inner.filter(|link| !link.trim().is_empty() && !link.contains('\n'));
    inner.take(MAX_LINKS).map(|link| format!("[[{link}]]"))
}

async fn page(web: &Fetcher, url: &str, now: &Zoned, pages: Pages) -> (Vec<Version>, Vec<Problem>) {
    let fetched = match pages {
        Pages::RecordedSession => web.fetch(url, now.timestamp()).await,
        Pages::Fresh => web.refresh(url, now.timestamp()).await,
    };
    match fetched {
        Ok(page) => {
            let old = page.note().map(|note| Problem::new(&page.asked, note));
            (vec![Version::url(&page.asked, page.title.as_deref(), &page.markdown)], old.into_iter().collect())
        }
        Err(error) => (Vec::new(), vec![Problem::new(url, error.to_string())]),
    }
}

/// An image that is given with a message and is not of the vault.
pub fn given_image(number: usize, bytes: &[u8]) -> Result<Version, String> {
    let name = format!("image-{number}");
    let image = foreword_documents::images::image(ItemId::new(Kind::Image, &name), bytes)?;
    Ok(Version::note(&name, None, "", vec![image]))
}

/// The block of an item in a prompt.
pub fn block(version: &Version) -> String {
    version.block(&mut Fence::new(), &version.content, RenderOptions::PLAIN)
}

fn shown(fence: &mut Fence, version: &Version) -> Shown {
    let block = version.block(fence, &version.content, RenderOptions::PLAIN);
    Shown {
        id: version.id.clone(),
        hash: version.hash,
        tokens: Chars::FOUR.count(&block).0,
        images: version.images.iter().map(|image| image.id.clone()).collect(),
        block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_notes() {
        let check = |words: &str, expect: &[&str]| assert_eq!(links(words).collect::<Vec<_>>(), expect, "{words}");
        check("no link", &[]);
        check("[[Bread]] and [[Beds|the beds]]", &["[[Bread]]", "[[Beds|the beds]]"]);
        check("[[open", &[]);
        check("[[ ]] [[a\nb]] ]] [[", &[]);
        check("[[[[Bread]]", &["[[Bread]]"]);
    }
}
