//! Items that join and leave: by the user's hand, and with another agent.

use std::sync::Arc;

use super::{Notice, Session};
use crate::catalog::{Agent, CatalogBody, Include};
use crate::envelope::{FoldReason, LeftOut};
use crate::item::{ItemId, Kind};
use crate::library::Library;
use crate::prompt::{ToolSpec, ToolStyle};
use crate::select::Reason;
use crate::settings::Layout;
use crate::text::fence::one_line;
use crate::version::{Dress, Version};

impl Session {
    /// Adds an item by hand: it is `manual` from now on, whatever its own mode.
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
        self.members.push((id.clone(), Include::Manual));
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

    /// Removes an item by hand: it must not be sent again.
    pub(super) fn remove(&mut self, id: &ItemId) {
        let member = self.is_member(id);
        self.members.retain(|(member, _)| member != id);
        self.pinned.remove(id);
        self.removed.insert(id.clone());
        self.pending_members.retain(|member| member != id);
        self.pending_notices.retain(|notice| notice.item != *id);
        let stands = self.library.contains(id) || self.epoch.l1_context.iter().any(|entry| entry.item == *id);
        if !member && !stands {
            self.note("not_in_session", Some(id.clone()), format!("{id} was not in the session"));
            return;
        }
        self.library.remove(id);
        if let Some(turn) = &mut self.turn {
            turn.attached.retain(|wanted| wanted.version.id != *id);
            turn.chosen.retain(|wanted| wanted.version.id != *id);
            turn.left_out.retain(|left_out| left_out.item != *id);
            turn.left_out.push(LeftOut { item: id.clone(), reason: Reason::Removed, score: None });
            turn.notices.retain(|notice| notice.item != *id);
        }
        self.undo = None;
        if self.requests == 0 {
            self.lay_out();
            return;
        }
        if stands {
            self.want_fold(FoldReason::ItemRemoved);
        }
        if self.settings.layout == Layout::Log {
            let text = format!(
                "<engine_notice>\nRemoved by the user and no longer part of this session: {}\n</engine_notice>",
                one_line(&id.to_string())
            );
            let tokens = self.count(&text);
            self.pending_notices.push(Notice { item: id.clone(), version: None, text: text.into(), tokens });
        }
    }

    fn notice(&mut self, version: &Version, what: &str) {
        let block = version.block(&mut self.fence, &version.content, Dress::PLAIN);
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
        let member_text = |agent: &Agent, id: &ItemId| agent.find(id).map(|item| Version::catalogued(&item));
        let old = std::mem::replace(&mut self.agent, agent);
        for tool in &self.agent.tools {
            self.fence.know_tool(&tool.name);
        }
        let gone: Vec<ItemId> =
            self.members.iter().map(|(id, _)| id.clone()).filter(|id| self.agent.find(id).is_none()).collect();
        for id in gone {
            self.note("left_agent", Some(id.clone()), format!("{id} is no longer in the agent and leaves the session"));
            self.remove(&id);
        }
        for (id, _) in self.members.clone() {
            let changed = member_text(&old, &id) != member_text(&self.agent, &id);
            if changed && id.kind() == Kind::Reference && !self.pending_members.contains(&id) {
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

    /// A new tool is announced; where the list is sent whole, it joins it with the next epoch.
    fn tools_changed(&mut self, old: &[ToolSpec]) {
        if self.settings.layout != Layout::Log || self.settings.tools == ToolStyle::Native {
            return;
        }
        let added = self.tool_specs().into_iter().filter_map(|spec| spec.id);
        let added: Vec<ItemId> = added.filter(|id| !old.iter().any(|old| old.id.as_ref() == Some(id))).collect();
        for id in added {
            let Some(version) = self.agent.find(&id).map(|item| Version::catalogued(&item)) else { continue };
            self.notice(&version, "A tool was added. It can be called once it is chosen:");
        }
    }

    /// Whether this request may use a tool that the epoch's list does not hold.
    pub(super) fn lacks_a_tool(&self) -> bool {
        let Some(tools) = self.epoch.tools.as_ref().filter(|tools| tools.style == ToolStyle::Allowed) else { return false };
        tools.allowed.iter().any(|name| !tools.list.iter().any(|spec| spec.name == *name))
    }
}
