//! Which session a request that is passed on belongs to: by what its client calls it, by an answer that it goes on from, else by the
//! longest conversation that it begins with.
//!
//! A session has a line of requests (a thread). A side call of a client (a title, a subagent, a summary) is a session of its own that
//! knows its parent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foreword_core::hash::Hash;

use super::assist::Additions;
use super::conversation::{Conversation, Who};

/// Threads that are remembered; the ones that were used longest ago are forgotten.
const THREADS: usize = 4096;

/// Messages of all of them together.
const MESSAGES: usize = 1 << 20;

/// What a model made that is remembered: ids of calls and answers, hashes of texts.
const MADE: usize = 1 << 17;

/// How long the same opening counts as sent again, in milliseconds.
const AGAIN_MS: i64 = 10 * 60 * 1000;

/// How long a mark of ours is taken to be there, in milliseconds: a little less than the provider says.
const MARK_MS: i64 = 270 * 1000;

/// Heads of prompts whose rate is known.
const HEADS: usize = 1024;

/// How a session was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its client named it.
    Named,
    /// It goes on from an answer of it.
    Answer,
    /// It begins with its messages.
    Prefix,
    /// It holds what the model said in it.
    ClientMessage,
    /// It is new.
    New,
}

impl How {
    /// Its word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Answer => "answer",
            Self::Prefix => "prefix",
            Self::ClientMessage => "said",
            Self::New => "new",
        }
    }
}

/// Names a client gives, before what is in a body is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The session, by the name that is used here (`x-foreword-session`).
    pub session: Option<String>,
    /// What the client calls the conversation in a header of its own.
    pub client: Option<String>,
    /// Whose it is: clients with different keys of their own share nothing.
    pub owner: Option<Hash>,
}

/// What is known of the thread that a request belongs to, from before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Before {
    /// Requests that were answered.
    pub answered: u64,
    /// Messages at the start that the last answered request had too.
    pub shared: usize,
    /// Whether that were all messages of it.
    pub is_whole: bool,
    /// Whether the last answered request had the same model, system prompt and tools.
    pub same_head: bool,
    /// When it went out, in milliseconds since 1970.
    pub at_ms: i64,
    /// The most messages in front of a cache mark of ours that is still there and that this request begins with.
    pub marked: Option<usize>,
    /// The cache key that was added to its requests.
    pub cache_key: Option<String>,
    /// What our marks have saved so far: bytes of prompt at the input price, negative where they cost more.
    pub saved: f64,
}

/// A request's session.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognised {
    /// Its name.
    pub session: String,
    /// The session that it is a side call of.
    pub parent: Option<String>,
    /// How it was recognised.
    pub how: How,
    /// What was known of it.
    pub before: Before,
    /// Requests with the same model, system prompt and tools within the last minute, this one included.
    pub rate: usize,
    /// The thread, to tell of the answer.
    pub thread: u64,
    chain: Vec<Hash>,
    head: Hash,
}

/// A line of requests.
#[derive(Debug)]
struct Thread {
    session: String,
    parent: Option<String>,
    owner: Option<Hash>,
    /// Whether the owner is not known, because it is from before a restart.
    from_store: bool,
    system: Hash,
    tool_names: Vec<Hash>,
    /// What the last request said, and when it came.
    chain: Vec<Hash>,
    came_ms: i64,
    answered: Option<Answered>,
    count: u64,
    /// Marks of ours that a provider has taken: the conversation in front of each, and when.
    marked: Vec<(Hash, i64)>,
    cache_key: Option<String>,
    saved: f64,
    /// The place in the order of use.
    used: u64,
}

/// The last request of a thread that was answered.
#[derive(Debug)]
struct Answered {
    chain: Vec<Hash>,
    head: Hash,
    at_ms: i64,
}

#[derive(Debug, Default)]
struct Known {
    threads: HashMap<u64, Thread>,
    next: u64,
    used: u64,
    by_prefix: HashMap<Hash, u64>,
    by_session: HashMap<String, Vec<u64>>,
    by_name: HashMap<(Option<Hash>, String), String>,
    made: HashMap<Hash, u64>,
    made_order: VecDeque<Hash>,
    heads: HashMap<Hash, VecDeque<i64>>,
}

/// All sessions that are remembered.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<Known>);

impl Sessions {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the session of a request, or begins one under the name that `new_name` gives.
    pub fn recognise(&self, names: &Names, asked: &Conversation, now_ms: i64, new_name: impl FnMut() -> String) -> Recognised {
        self.known().recognise(names, asked, now_ms, new_name)
    }

    /// The session that a client names, where it is known.
    pub fn named(&self, names: &Names) -> Option<String> {
        let client = names.client.as_ref();
        names.session.clone().or_else(|| self.known().by_name.get(&(names.owner, client?.clone())).cloned())
    }

    /// Puts a request from before a restart in its place; those of a session come in their order.
    pub fn restore(&self, session: &str, parent: Option<&str>, asked: &Conversation, client: Option<&str>, at_ms: i64) {
        let mut known = self.known();
        let thread = known.by_session.get(session).and_then(|threads| threads.first().copied());
        let thread = thread.unwrap_or_else(|| known.begin(session.to_owned(), parent.map(str::to_owned), None));
        if let Some(client) = client {
            known.by_name.insert((None, client.to_owned()), parent.unwrap_or(session).to_owned());
        }
        let chain = asked.chain(None);
        known.place(thread, asked, &chain, at_ms);
        if let Some(thread) = known.threads.get_mut(&thread) {
            thread.from_store = true;
        }
    }

    /// A provider took a request with these additions: later ones are compared with it.
    pub fn answered(&self, of: &Recognised, added: &Additions, at_ms: i64) {
        let mut known = self.known();
        let Some(thread) = known.threads.get_mut(&of.thread) else { return };
        thread.count += 1;
        thread.saved += added.saved;
        if let Some(hash) = added.marked.and_then(|marked| of.chain.get(marked)) {
            thread.marked.retain(|(found, _)| found != hash);
            thread.marked.push((*hash, at_ms));
            let most = thread.marked.len().saturating_sub(64);
            thread.marked.drain(..most);
        }
        if let Some(key) = &added.cache_key {
            thread.cache_key = Some(key.clone());
        }
        // Of parallel requests the later one counts.
        if thread.answered.as_ref().is_none_or(|answered| answered.at_ms <= at_ms) {
            thread.answered = Some(Answered { chain: of.chain.clone(), head: of.head, at_ms });
        }
    }

    /// A model made something that leads back to its thread: the id of an answer or a call, a text.
    pub fn made(&self, thread: u64, what: Hash) {
        let mut known = self.known();
        if known.threads.contains_key(&thread) && known.made.insert(what, thread).is_none() {
            known.made_order.push_back(what);
            while known.made_order.len() > MADE {
                let oldest = known.made_order.pop_front();
                oldest.map(|oldest| known.made.remove(&oldest));
            }
        }
    }
}

/// Whether two requests come from the same part of a program: with the same system prompt, or mostly the same tools.
fn same_part(thread: &Thread, asked: &Conversation) -> bool {
    if thread.system == asked.system {
        return true;
    }
    let (a, b) = (&thread.tool_names, &asked.tool_names);
    let both = a.iter().filter(|name| b.contains(name)).count();
    both > 0 && both * 2 >= a.len() + b.len() - both
}

fn shared(a: &[Hash], b: &[Hash]) -> usize {
    // Both begin with the hash of nothing.
    a.iter().zip(b).take_while(|(a, b)| a == b).count().saturating_sub(1)
}

impl Known {
    fn recognise(
        &mut self,
        names: &Names,
        asked: &Conversation,
        now_ms: i64,
        mut new_name: impl FnMut() -> String,
    ) -> Recognised {
        let chain = asked.chain(names.owner);
        let client = names.client.clone().or_else(|| asked.named.clone());
        let root = names.session.clone().or_else(|| {
            let name = client.as_ref()?;
            let own = self.by_name.get(&(names.owner, name.clone()));
            // From before a restart nobody knows whose it was.
            own.or_else(|| self.by_name.get(&(None, name.clone())).filter(|session| self.is_from_store(session))).cloned()
        });
        let (thread, how) = match root {
            Some(root) => (self.within(&root, asked, &chain, names, &mut new_name), How::Named),
            None => match self.find(names, asked, &chain, now_ms) {
                Some((thread, how)) if self.threads.get(&thread).is_some_and(|thread| same_part(thread, asked)) => (thread, how),
                Some((thread, how)) if client.is_none() => {
                    let parent =
                        self.threads.get(&thread).map(|thread| thread.parent.clone().unwrap_or_else(|| thread.session.clone()));
                    let side = parent.as_ref().and_then(|parent| self.child(parent, asked, &chain));
                    (side.unwrap_or_else(|| self.begin(new_name(), parent, names.owner)), how)
                }
                _ => (self.begin(new_name(), None, names.owner), How::New),
            },
        };
        if let (Some(client), Some(found)) = (client, self.threads.get(&thread)) {
            let root = found.parent.clone().unwrap_or_else(|| found.session.clone());
            self.by_name.insert((names.owner, client), root);
        }
        let head = head(asked);
        let rate = self.rate(head, now_ms);
        let before = self.before(thread, &chain, head, now_ms);
        self.place(thread, asked, &chain, now_ms);
        let (session, parent) = self.threads.get_mut(&thread).map_or_else(Default::default, |thread| {
            (thread.owner, thread.from_store) = (names.owner, false);
            (thread.session.clone(), thread.parent.clone())
        });
        Recognised { session, parent, how, before, rate, thread, chain, head }
    }

    fn is_from_store(&self, session: &str) -> bool {
        let threads = self.by_session.get(session).into_iter().flatten();
        threads.filter_map(|thread| self.threads.get(thread)).any(|thread| thread.from_store)
    }

    /// The thread of a session that a client names: the one that this goes on, or a new side call.
    fn within(
        &mut self,
        root: &str,
        asked: &Conversation,
        chain: &[Hash],
        names: &Names,
        new_name: &mut dyn FnMut() -> String,
    ) -> u64 {
        let Some(main) = self.by_session.get(root).and_then(|threads| threads.first().copied()) else {
            return self.begin(root.to_owned(), None, names.owner);
        };
        // A name that is meant for here is meant for this session and no other.
        if names.session.is_some() || asked.said.is_empty() {
            return main;
        }
        let of_main = self.threads.get(&main);
        let goes_on =
            of_main.is_some_and(|thread| thread.chain.len() < 2 || shared(&Self::chain_of(thread, chain, asked), chain) > 0);
        if goes_on && of_main.is_some_and(|thread| same_part(thread, asked)) {
            return main;
        }
        if let Some(side) = self.child(root, asked, chain) {
            return side;
        }
        // A compacted prompt starts over, in the same part of the program.
        if of_main.is_some_and(|thread| thread.system == asked.system && !asked.tool_names.is_empty()) {
            return main;
        }
        self.begin(new_name(), Some(root.to_owned()), names.owner)
    }

    /// The chain of a thread, as far as it can be compared with another: that of one from before a restart has no owner in it.
    fn chain_of(thread: &Thread, chain: &[Hash], asked: &Conversation) -> Vec<Hash> {
        if thread.chain.first() == chain.first() || !thread.from_store {
            return thread.chain.clone();
        }
        let bare = asked.chain(None);
        let same = shared(&thread.chain, &bare);
        let mut found = chain.get(..=same).unwrap_or_default().to_vec();
        found.extend(thread.chain.get(same + 1..).unwrap_or_default());
        found
    }

    /// A side call of a session that this goes on.
    fn child(&self, root: &str, asked: &Conversation, chain: &[Hash]) -> Option<u64> {
        let of_root = self.threads.iter().filter(|(_, thread)| thread.parent.as_deref() == Some(root));
        let fits = of_root.filter(|(_, thread)| same_part(thread, asked));
        let found = fits.map(|(id, thread)| (shared(&Self::chain_of(thread, chain, asked), chain), thread.used, *id));
        found.filter(|(shared, ..)| *shared > 0).max().map(|(.., id)| id)
    }

    /// The thread that a request without a name goes on.
    fn find(&self, names: &Names, asked: &Conversation, chain: &[Hash], now_ms: i64) -> Option<(u64, How)> {
        let is_theirs = |id: &u64| {
            let thread = self.threads.get(id)?;
            (thread.owner == names.owner || thread.from_store).then_some(*id)
        };
        let of_made = |what: &Hash| self.made.get(what).and_then(is_theirs);
        if let Some(previous) = &asked.previous
            && let Some(thread) = of_made(&Hash::of(previous))
        {
            return Some((thread, How::Answer));
        }
        let bare = names.owner.is_some().then(|| asked.chain(None));
        for chain in [Some(chain), bare.as_deref()].into_iter().flatten() {
            let known = chain.iter().enumerate().skip(1).rev();
            let mut found = known.filter_map(|(at, hash)| Some((at, self.by_prefix.get(hash).and_then(is_theirs)?)));
            let Some((at, thread)) = found.next() else { continue };
            let Some(of) = self.threads.get(&thread) else { continue };
            let model_spoke = asked.said.iter().take(at).any(|spoken| spoken.who == Who::Model);
            let goes_on = of.chain.len() <= at + 1;
            let again = of.chain.len() == chain.len() && now_ms - of.came_ms < AGAIN_MS;
            // What many conversations begin with (a prompt by examples) leads to none of them, unless the model's words are there too.
            if goes_on && (at + 1 < chain.len() || again) {
                return Some((thread, How::Prefix));
            }
            let said = asked.said.iter().flat_map(|spoken| &spoken.made).rev().find_map(of_made);
            if let Some(said) = said {
                return Some((said, How::ClientMessage));
            }
            if model_spoke {
                return Some((thread, How::Prefix));
            }
        }
        // The end of a conversation whose beginning was rewritten.
        asked.said.iter().flat_map(|spoken| &spoken.made).rev().find_map(of_made).map(|thread| (thread, How::ClientMessage))
    }

    fn before(&self, thread: u64, chain: &[Hash], head: Hash, now_ms: i64) -> Before {
        let Some(thread) = self.threads.get(&thread) else { return Before::default() };
        let marked = thread.marked.iter().filter(|(_, at_ms)| now_ms - at_ms < MARK_MS);
        let marked = marked.filter_map(|(hash, _)| chain.iter().position(|found| found == hash));
        let mut before = Before {
            answered: thread.count,
            marked: marked.max(),
            saved: thread.saved,
            cache_key: thread.cache_key.clone(),
            ..Before::default()
        };
        if let Some(answered) = &thread.answered {
            before.shared = shared(&answered.chain, chain);
            before.is_whole = before.shared + 1 == answered.chain.len();
            before.same_head = answered.head == head;
            before.at_ms = answered.at_ms;
        }
        before
    }

    fn rate(&mut self, head: Hash, now_ms: i64) -> usize {
        if self.heads.len() > HEADS {
            self.heads.clear();
        }
        let times = self.heads.entry(head).or_default();
        times.push_back(now_ms);
        while times.front().is_some_and(|first| now_ms - first > 60_000) || times.len() > 256 {
            times.pop_front();
        }
        times.len()
    }

    fn begin(&mut self, session: String, parent: Option<String>, owner: Option<Hash>) -> u64 {
        self.next += 1;
        let thread = Thread {
            session: session.clone(),
            parent,
            owner,
            from_store: false,
            system: Hash::of(""),
            tool_names: Vec::new(),
            chain: Vec::new(),
            came_ms: 0,
            answered: None,
            count: 0,
            marked: Vec::new(),
            cache_key: None,
            saved: 0.0,
            used: self.used,
        };
        self.threads.insert(self.next, thread);
        self.by_session.entry(session).or_default().push(self.next);
        self.next
    }

    /// Remembers what a request said.
    fn place(&mut self, id: u64, asked: &Conversation, chain: &[Hash], now_ms: i64) {
        self.used += 1;
        let Some(thread) = self.threads.get_mut(&id) else { return };
        for hash in chain.iter().skip(1) {
            self.by_prefix.insert(*hash, id);
        }
        thread.used = self.used;
        // What is not a part of its line any more still leads to it, until the thread is forgotten: another request may go on from there.
        thread.chain = chain.to_vec();
        thread.came_ms = now_ms;
        thread.system = asked.system;
        thread.tool_names.clone_from(&asked.tool_names);
        let made: Vec<Hash> = asked.said.iter().rev().take(64).flat_map(|spoken| spoken.made.iter().copied()).collect();
        for what in made {
            if let std::collections::hash_map::Entry::Vacant(free) = self.made.entry(what) {
                free.insert(id);
                self.made_order.push_back(what);
            }
        }
        self.forget();
    }

    /// Forgets the threads that were used longest ago, where there are too many.
    fn forget(&mut self) {
        if self.threads.len() <= THREADS && self.by_prefix.len() <= MESSAGES {
            return;
        }
        let mut order: Vec<(u64, u64)> = self.threads.iter().map(|(id, thread)| (thread.used, *id)).collect();
        order.sort_unstable();
        let gone: HashSet<u64> = order.iter().take(order.len() / 4 + 1).map(|(_, id)| *id).collect();
        for id in &gone {
            let Some(thread) = self.threads.remove(id) else { continue };
            if let Some(threads) = self.by_session.get_mut(&thread.session) {
                threads.retain(|one| one != id);
            }
        }
        self.by_session.retain(|_, threads| !threads.is_empty());
        self.by_prefix.retain(|_, id| !gone.contains(id));
        self.made.retain(|_, id| !gone.contains(id));
        let made = &self.made;
        self.made_order.retain(|what| made.contains_key(what));
        let by_session = &self.by_session;
        self.by_name.retain(|_, session| by_session.contains_key(session));
    }
}

/// What stands in front of the messages of a prompt.
fn head(asked: &Conversation) -> Hash {
    let model = asked.model.as_deref().unwrap_or_default();
    Hash::of([asked.system.bytes().as_slice(), asked.tools.bytes(), model.as_bytes()].concat())
}
