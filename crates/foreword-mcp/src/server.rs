//! The server: which request of the protocol is answered by what.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, Reference, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use tokio::sync::Semaphore;

use crate::notes::Notes;
use crate::{prompts, resources, tools};

/// Requests that are worked on at a time; others wait.
const AT_A_TIME: usize = 4;

/// Requests that may wait; more are refused.
const MOST_WAITING: usize = 256;

const INSTRUCTIONS: &str = "The user's notes (a folder of markdown). Use search_notes to find passages, read_note to read on, list_notes for \
                            an overview, recall for what was said in earlier sessions, context_for to get one block of context for a question. \
                            Cite notes by their path.";

/// The protocol revisions that are spoken, the newest last.
const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// One connection's view of the vault.
#[derive(Clone)]
pub(crate) struct Server {
    notes: Arc<Notes>,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn new(notes: Arc<Notes>) -> Self {
        let (turns, places) = (Semaphore::new(AT_A_TIME), Semaphore::new(MOST_WAITING));
        Self { notes, turns: Arc::new(turns), places: Arc::new(places) }
    }

    /// Does work that reads files on a thread of its own.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Notes) -> Result<T, ErrorData> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let ended = |what: &dyn std::fmt::Display| ErrorData::internal_error(what.to_string(), None);
        let busy = |_| ErrorData::internal_error("too many requests are waiting; try again in a moment", None);
        let _place = self.places.try_acquire().map_err(busy)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|error| ended(&error))?;
        let notes = Arc::clone(&self.notes);
        let worked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&notes)
        });
        worked.await.map_err(|error| ended(&error))?
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().enable_completions().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("foreword", env!("CARGO_PKG_VERSION")).with_title("Foreword"))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(self.notes.config().writing)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(self.notes.config().writing, name)
    }

    async fn call_tool(&self, call: CallToolRequestParams, _: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let result = self.work(move |notes| {
            let called = tools::call(notes, &call.name, call.arguments.unwrap_or_default());
            called.ok_or_else(|| ErrorData::invalid_params(format!("there is no tool {:?}", call.name), None))
        });
        Ok(CallToolResponse::from(result.await?))
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.work(move |notes| resources::list(notes, page.and_then(|page| page.cursor).as_deref())).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        wanted: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResponse::from(self.work(move |notes| resources::read(notes, &wanted.uri)).await?))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.work(|notes| Ok(prompts::list(notes))).await
    }

    async fn get_prompt(
        &self,
        wanted: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(GetPromptResponse::from(self.work(move |notes| prompts::get(notes, &wanted.name)).await?))
    }

    async fn complete(&self, begun: CompleteRequestParams, _: RequestContext<RoleServer>) -> Result<CompleteResult, ErrorData> {
        let Reference::Resource(template) = begun.r#ref else {
            return Err(ErrorData::invalid_params("prompts have no arguments to complete", None));
        };
        let completed =
            self.work(move |notes| resources::complete(notes, &template.uri, &begun.argument.name, &begun.argument.value));
        Ok(CompleteResult::new(completed.await?))
    }
}
