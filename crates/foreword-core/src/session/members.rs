//! Items that join or leave a session: by the user, or by a change of the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Notice, Session};
use crate::catalog::{Agent, CatalogBody, Catalogued, Include};
use crate::envelope::{FoldReason, LeftOut};
use crate::item::{ItemId, Kind};
use crate::library::Library;
use crate::prompt::{ToolSpec, ToolStyle};
use crate::select::Reason;
use crate::settings::Layout;
use crate::version::{RenderOptions, Version};
use foreword_text::fence::one_line;

impl Session {
    /// Adds an item on behalf of the user; its include mode becomes `manual`.
    pub(super) fn add(&mut self, id: &ItemId) {
        self.removed.remove(id);
        if self.is_member(id) {
            self.note("already_in_session", Some(id.clone()), format!("{id} is in the session already"));
            return;
        }
        let Some(item) = self.agent.find(id) else {
            self.note("already_in_session", Some(id.clone()), format!("{id} stands in the prompt already"));
            return;
        };
        let version = Version::catalogued(&item);
        let is_rule = matches!(item.body, CatalogBody::Rule(_));
        // A tool that comes with the program is in whether anybody chose it or not.
        let is_always = item.include == Include::Always && id.kind() == Kind::Tool;
        self.members.push((id.clone(), if is_always { Include::Always } else { Include::Manual }));
        if is_rule {
            self.announce_rule(&version);
        } else {
            self.pending_members.push(id.clone());
        }
    }

    fn announce_rule(&mut self, version: &Version) {
        if self.requests == 0 {
            self.lay_out();
            return;
        }
        match self.settings.layout {
            Layout::Library => self.want_fold(FoldReason::RulesChanged),
            Layout::Log => self.notice(version, "A rule joined this session:"),
        }
    }

    /// Removes items on behalf of the user, all at once, because there may be many.
    pub(super) fn remove(&mut self, items: &[ItemId]) {
        let ids: BTreeSet<&ItemId> = items.iter().collect();
        let members: BTreeSet<&ItemId> = self.members.iter().map(|(member, _)| member).collect();
        let listed: BTreeSet<&ItemId> = self.epoch.l1_context.iter().map(|entry| &entry.item).collect();
        let stands = |id: &&ItemId| self.library.contains(id) || listed.contains(*id);
        let any_stands = items.iter().any(|id| stands(&id));
        let (here, unknown): (Vec<ItemId>, Vec<ItemId>) =
            items.iter().cloned().partition(|id| members.contains(id) || stands(&id));
        self.members.retain(|(member, _)| !ids.contains(member));
        self.pinned.retain(|id| !ids.contains(id));
        self.removed.extend(items.iter().cloned());
        self.pending_members.retain(|member| !ids.contains(member));
        self.pending_notices.retain(|notice| !ids.contains(&notice.item));
        for id in unknown {
            self.note("not_in_session", Some(id.clone()), format!("{id} was not in the session"));
        }
        if here.is_empty() {
            return;
        }
        for id in &here {
            self.library.remove(id);
        }
        if let Some(turn) = &mut self.turn {
            let gone: BTreeSet<&ItemId> = here.iter().collect();
            turn.attached.retain(|wanted| !gone.contains(&wanted.version.id));
            turn.chosen.retain(|wanted| !gone.contains(&wanted.version.id));
            turn.left_out.retain(|left_out| !gone.contains(&left_out.item));
            let removed = here.iter().map(|id| LeftOut { item: id.clone(), reason: Reason::Removed, score: None });
            turn.left_out.extend(removed);
            turn.notices.retain(|notice| !gone.contains(&notice.item));
        }
        self.undo = None;
        if self.requests == 0 {
            self.lay_out();
            return;
        }
        if any_stands {
            self.want_fold(FoldReason::ItemRemoved);
        }
        if self.settings.layout == Layout::Log {
            for id in here {
                let text = format!(
                    "<engine_notice>\nRemoved by the user and no longer part of this session: {}\n</engine_notice>",
                    one_line(&id.to_string())
                );
                let tokens = self.count(&text);
                self.pending_notices.push(Notice { item: id, version: None, text: text.into(), tokens });
            }
        }
    }

    fn notice(&mut self, version: &Version, what: &str) {
        let block = version.block(&mut self.fence, &version.content, RenderOptions::PLAIN);
        let text = format!("<engine_notice>\n{what}\n{block}\n</engine_notice>");
        let tokens = self.count(&text);
        self.pending_notices.push(Notice {
            item: version.id.clone(),
            version: Some(Arc::new(version.clone())),
            text: text.into(),
            tokens,
        });
    }

    pub(super) fn want_fold(&mut self, reason: FoldReason) {
        self.pending_fold = Some(match (self.pending_fold, reason) {
            // What a person removed must go whatever else happens, and cannot be undone.
            (Some(FoldReason::ItemRemoved), _) => FoldReason::ItemRemoved,
            _ => reason,
        });
    }

    pub(super) fn change_agent(&mut self, agent: Agent) {
        let before = self.l1_text();
        let old_tools = self.tool_specs();
        let old = std::mem::replace(&mut self.agent, agent);
        for tool in &self.agent.tools {
            self.fence.know_tool(&tool.name);
        }
        let items = self.agent.by_id();
        let gone: Vec<ItemId> = self.members().filter(|id| !items.contains_key(id)).cloned().collect();
        let before_change = old.by_id();
        let text = |items: &BTreeMap<ItemId, Catalogued<'_>>, id: &ItemId| items.get(id).map(Version::catalogued);
        let stays_changed = |id: &&ItemId| {
            id.kind() == Kind::Reference && items.contains_key(*id) && text(&before_change, id) != text(&items, id)
        };
        let changed: Vec<ItemId> = self.members().filter(stays_changed).cloned().collect();
        for id in &gone {
            self.note("left_agent", Some(id.clone()), format!("{id} is no longer in the agent and leaves the session"));
        }
        if !gone.is_empty() {
            self.remove(&gone);
        }
        for id in changed {
            if !self.pending_members.contains(&id) {
                self.pending_members.push(id);
            }
        }
        if self.requests == 0 {
            self.library = Library::default();
            self.pending_members.clear();
            self.seat_members();
            self.lay_out();
            return;
        }
        if self.l1_text() != before {
            self.want_fold(FoldReason::AgentChanged);
        }
        self.tools_changed(&old_tools);
    }

    /// Announces a new tool; a complete tool list gains it with the next epoch.
    fn tools_changed(&mut self, old: &[ToolSpec]) {
        if self.settings.layout != Layout::Log || self.settings.tools == ToolStyle::Native {
            return;
        }
        let old: BTreeSet<&ItemId> = old.iter().filter_map(|spec| spec.id.as_ref()).collect();
        let items = self.agent.by_id();
        let added = self.tool_specs().into_iter().filter_map(|spec| spec.id).filter(|id| !old.contains(id));
        let added: Vec<Version> = added.filter_map(|id| items.get(&id).map(Version::catalogued)).collect();
        for version in added {
            self.notice(&version, "A tool was added. It can be called once it is chosen:");
        }
    }

    /// Whether this request may use a tool that is not in the epoch's list.
    pub(super) fn lacks_a_tool(&self) -> bool {
        let Some(tools) = self.epoch.tools.as_ref().filter(|tools| tools.style == ToolStyle::Allowed) else { return false };
        let listed: BTreeSet<&str> = tools.list.iter().map(|spec| spec.name.as_str()).collect();
        tools.allowed.iter().any(|name| !listed.contains(name.as_str()))
    }
}
