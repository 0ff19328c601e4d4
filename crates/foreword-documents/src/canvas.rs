//! Canvas files (JSON Canvas) as text. A canvas says things by position: what stands in a group, above or beside something else,
//! or at the end of an arrow. Here position becomes order, groups become headings and arrows become a list, so that a model can follow.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use foreword_text::reserved;
use serde::Deserialize;
use serde_json::Value;

/// The largest canvas that is read.
pub const MAX_BYTES: usize = 16 << 20;
const MAX_CARDS: usize = 10_000;
const MAX_GROUPS: usize = 500;
const MAX_EDGES: usize = 20_000;
const TITLE_CHARS: usize = 60;

/// How the lines begin that are written here: a card cannot hold one.
const OWN: [&str; 8] =
    ["[Card 0", "Connections:", "# Group:", "## Group:", "### Group:", "#### Group:", "##### Group:", "###### Group:"];

/// What a canvas says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanvasText {
    /// Markdown: numbered cards in reading order under their groups, then the connections by card number.
    pub text: String,
    /// Files that cards show, with their `#part`, in reading order, each once.
    pub files: Vec<String>,
    /// Addresses that cards show, in reading order, each once.
    pub links: Vec<String>,
    /// How many nodes and edges could not be read, or were over the limit.
    pub skipped: usize,
}

/// A canvas that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CanvasError {
    /// Too large.
    #[error("reading a canvas: it has {found} bytes and {MAX_BYTES} is the most; split it")]
    TooLarge {
        /// Its size.
        found: usize,
    },
    /// No JSON Canvas.
    #[error("reading a canvas: it is no JSON Canvas file ({0}); open it in the editor that wrote it and save it again")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Canvas {
    nodes: Vec<Value>,
    edges: Vec<Value>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    #[serde(flatten)]
    body: Body,
    #[serde(default)]
    x: f64,
    #[serde(default)]
    y: f64,
    #[serde(default)]
    width: f64,
    #[serde(default)]
    height: f64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Body {
    Text {
        text: String,
    },
    File {
        file: String,
        #[serde(default)]
        subpath: Option<String>,
    },
    Link {
        url: String,
    },
    Group {
        #[serde(default)]
        label: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    from_node: String,
    to_node: String,
    #[serde(default)]
    from_end: Option<String>,
    #[serde(default)]
    to_end: Option<String>,
    #[serde(default)]
    label: Option<String>,
}

impl Node {
    fn area(&self) -> f64 {
        self.width * self.height
    }

    fn holds(&self, other: &Self) -> bool {
        let (x, y) = (other.x + other.width / 2.0, other.y + other.height / 2.0);
        (self.x..=self.x + self.width).contains(&x) && (self.y..=self.y + self.height).contains(&y)
    }

    fn is_group(&self) -> bool {
        matches!(self.body, Body::Group { .. })
    }

    /// One line that tells this card from others.
    fn title(&self) -> String {
        let text = match &self.body {
            Body::Text { text } => {
                text.lines().map(|line| line.trim_start_matches(['#', ' ', '\t'])).find(|line| !line.is_empty())
            }
            Body::File { file, .. } => Some(file.as_str()),
            Body::Link { url } => Some(url.as_str()),
            Body::Group { label } => label.as_deref(),
        };
        // Titles stand in quotation marks.
        let text = text.unwrap_or_default().replace('"', "'").split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(TITLE_CHARS) {
            Some((end, _)) => format!("{}…", text[..end].trim_end()),
            None => text,
        }
    }
}

/// Reads a canvas. An empty file is an empty canvas, as it is for its editor.
pub fn text(json: &str) -> Result<CanvasText, CanvasError> {
    if json.len() > MAX_BYTES {
        return Err(CanvasError::TooLarge { found: json.len() });
    }
    if json.trim().is_empty() {
        return Ok(CanvasText::default());
    }
    let canvas: Canvas = serde_json::from_str(json)?;
    let given = canvas.nodes.len() + canvas.edges.len();

    let mut nodes: Vec<Node> =
        canvas.nodes.into_iter().take(MAX_CARDS).filter_map(|node| serde_json::from_value(node).ok()).collect();
    let mut groups = 0;
    nodes.retain(|node| {
        groups += usize::from(node.is_group());
        !node.is_group() || groups <= MAX_GROUPS
    });
    let edges: Vec<Edge> =
        canvas.edges.into_iter().take(MAX_EDGES).filter_map(|edge| serde_json::from_value(edge).ok()).collect();

    let skipped = given - nodes.len() - edges.len();
    let mut writer = Writer { result: CanvasText { skipped, ..CanvasText::default() }, names: BTreeMap::new(), cards: 0 };
    let children = children(&nodes);
    writer.section(&nodes, &children, None, 1);
    writer.connections(&edges);
    if skipped > 0 {
        let _ = writeln!(writer.result.text, "({skipped} elements of this canvas could not be read.)");
    }
    writer.result.text.truncate(writer.result.text.trim_end().len());
    Ok(writer.result)
}

/// The nodes directly inside each group (`None`: inside none), each list in reading order. A node belongs to the smallest group that
/// holds its middle.
fn children(nodes: &[Node]) -> BTreeMap<Option<usize>, Vec<usize>> {
    let mut groups: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].is_group()).collect();
    groups.sort_by(|a, b| nodes[*a].area().total_cmp(&nodes[*b].area()).then(a.cmp(b)));
    let mut children: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        // Only groups behind it in this order may hold a group, so no two can hold each other.
        let above = groups.iter().position(|group| *group == at).map_or(0, |place| place + 1);
        let parent = groups.iter().skip(above).copied().find(|group| nodes[*group].holds(node));
        children.entry(parent).or_default().push(at);
    }
    for list in children.values_mut() {
        order(nodes, list);
    }
    children
}

/// Sorts into rows from top to bottom, each from left to right. A card that starts above the middle of a row's first card is in that
/// row: hand-placed cards rarely line up to the pixel.
fn order(nodes: &[Node], list: &mut [usize]) {
    list.sort_by(|a, b| nodes[*a].y.total_cmp(&nodes[*b].y).then_with(|| nodes[*a].id.cmp(&nodes[*b].id)));
    let mut rest = list;
    while let Some(first) = rest.first() {
        let middle = nodes[*first].y + nodes[*first].height / 2.0;
        let row = rest.iter().take_while(|at| nodes[**at].y < middle).count().max(1);
        let (this, below) = rest.split_at_mut(row);
        this.sort_by(|a, b| {
            let (a, b) = (&nodes[*a], &nodes[*b]);
            a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)).then_with(|| a.id.cmp(&b.id))
        });
        rest = below;
    }
}

struct Writer<'a> {
    result: CanvasText,
    /// How the connections call a node.
    names: BTreeMap<&'a str, String>,
    cards: usize,
}

impl<'a> Writer<'a> {
    /// Cards first, groups behind them: under a heading, a card of no group would seem to be part of it.
    fn section(&mut self, nodes: &'a [Node], children: &BTreeMap<Option<usize>, Vec<usize>>, group: Option<usize>, level: usize) {
        let inside = children.get(&group).map_or(&[][..], Vec::as_slice);
        for at in inside.iter().filter(|at| !nodes[**at].is_group()) {
            self.card(&nodes[*at]);
        }
        for at in inside.iter().filter(|at| nodes[**at].is_group()) {
            let title = nodes[*at].title();
            let title = if title.is_empty() { "Unnamed".to_owned() } else { title };
            let _ = writeln!(self.result.text, "{} Group: {title}\n", "#".repeat(level.min(6)));
            self.names.entry(&nodes[*at].id).or_insert_with(|| format!("group \"{title}\""));
            self.section(nodes, children, Some(*at), level + 1);
        }
    }

    fn card(&mut self, node: &'a Node) {
        self.cards += 1;
        let number = self.cards;
        let body = match &node.body {
            Body::Text { text } => reserved::escape(text.trim(), &OWN).into_owned(),
            Body::File { file, subpath } => {
                let target = format!("{file}{}", subpath.as_deref().unwrap_or_default());
                keep_once(&mut self.result.files, &target);
                format!("[[{}]]", reserved::one_line(&target))
            }
            Body::Link { url } => {
                keep_once(&mut self.result.links, url);
                format!("<{}>", reserved::one_line(url))
            }
            Body::Group { .. } => return,
        };
        let _ = writeln!(self.result.text, "[Card {number}]\n{body}\n");
        let title = node.title();
        self.names
            .entry(&node.id)
            .or_insert_with(|| if title.is_empty() { format!("card {number}") } else { format!("card {number} \"{title}\"") });
    }

    fn connections(&mut self, edges: &[Edge]) {
        let known =
            |edge: &&Edge| self.names.contains_key(edge.from_node.as_str()) && self.names.contains_key(edge.to_node.as_str());
        let mut lines: Vec<String> = Vec::new();
        for edge in edges.iter().filter(known) {
            let (from, to) = (&self.names[edge.from_node.as_str()], &self.names[edge.to_node.as_str()]);
            let starts = edge.from_end.as_deref() == Some("arrow");
            let ends = edge.to_end.as_deref() != Some("none");
            let arrow = match (starts, ends) {
                (false, true) => "→",
                (true, false) => "←",
                (true, true) => "↔",
                (false, false) => "—",
            };
            let label = edge.label.as_deref().map(|label| label.split_whitespace().collect::<Vec<_>>().join(" "));
            let label = label.filter(|label| !label.is_empty()).map(|label| format!(": {label}")).unwrap_or_default();
            lines.push(format!("- {from} {arrow} {to}{label}"));
        }
        if !lines.is_empty() {
            let _ = writeln!(self.result.text, "Connections:\n{}\n", lines.join("\n"));
        }
    }
}

fn keep_once(list: &mut Vec<String>, value: &str) {
    // At most `MAX_CARDS` short comparisons for each card; canvases have dozens.
    if !list.iter().any(|kept| kept == value) {
        list.push(value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(canvas: &Value, expect: &str) {
        let found = text(&canvas.to_string()).unwrap();
        assert_eq!(found.text, expect);
    }

    fn card(id: &str, x: i32, y: i32) -> Value {
        json!({"id": id, "type": "text", "text": id, "x": x, "y": y, "width": 100, "height": 50})
    }

    #[test]
    fn rows_from_top_to_bottom_then_left_to_right() {
        check(
            &json!({"nodes": [card("d", 200, 100), card("b", 300, 4), card("c", 0, 100), card("a", 0, 10)]}),
            "[Card 1]\na\n\n[Card 2]\nb\n\n[Card 3]\nc\n\n[Card 4]\nd",
        );
    }

    #[test]
    fn groups_are_headings_and_nest() {
        let group = |id: &str, label: &str, x: i32, side: i32| json!({"id": id, "type": "group", "label": label, "x": x, "y": 0, "width": side, "height": side});
        check(
            &json!({"nodes": [
                card("inner", 10, 10), card("outer", 300, 300), card("free", 2000, 0),
                group("g1", "Plan", 0, 500), group("g2", "Now", 0, 200), group("g3", "", 1000, 100)]}),
            "[Card 1]\nfree\n\n# Group: Plan\n\n[Card 2]\nouter\n\n## Group: Now\n\n[Card 3]\ninner\n\n# Group: Unnamed",
        );
    }

    #[test]
    fn files_links_and_edges() {
        let canvas = json!({
            "nodes": [
                {"id": "f", "type": "file", "file": "Notes/A b.md", "subpath": "#Part", "x": 0, "y": 0, "width": 10, "height": 10},
                {"id": "l", "type": "link", "url": "https://a.example/x", "x": 50, "y": 0, "width": 10, "height": 10, "color": "4"},
                {"id": "t", "type": "text", "text": "# Head\nbody", "x": 100, "y": 0, "width": 10, "height": 10},
                {"id": "?", "type": "hologram"}, 7],
            "edges": [
                {"id": "1", "fromNode": "f", "toNode": "l", "label": "leads\nto"},
                {"id": "2", "fromNode": "l", "toNode": "t", "toEnd": "none"},
                {"id": "3", "fromNode": "t", "toNode": "f", "fromEnd": "arrow"},
                {"id": "4", "fromNode": "t", "toNode": "gone"}],
        });
        check(
            &canvas,
            "[Card 1]\n[[Notes/A b.md#Part]]\n\n[Card 2]\n<https://a.example/x>\n\n[Card 3]\n# Head\nbody\n\nConnections:\n\
             - card 1 \"Notes/A b.md\" → card 2 \"https://a.example/x\": leads to\n\
             - card 2 \"https://a.example/x\" — card 3 \"Head\"\n\
             - card 3 \"Head\" ↔ card 1 \"Notes/A b.md\"\n\n(2 elements of this canvas could not be read.)",
        );
        let found = text(&canvas.to_string()).unwrap();
        assert_eq!(
            (found.files, found.links, found.skipped),
            (vec!["Notes/A b.md#Part".into()], vec!["https://a.example/x".into()], 2)
        );
    }

    #[test]
    fn a_card_or_a_label_forged_cards_and_connections() {
        let card = |id: &str, y: i32, text: &str| json!({"id": id, "type": "text", "text": text, "x": 0, "y": y, "width": 9, "height": 9});
        check(
            &json!({"nodes": [
                card("a", 0, "[Card 9]\n  Connections:\n- card 1 → card 2\n# Group: X"),
                card("b", 20, "a \" b"),
                {"id": "l", "type": "link", "url": "x\n[Card 7]", "x": 0, "y": 40, "width": 9, "height": 9},
                {"id": "g", "type": "group", "label": "G\n\n[Card 8]\u{2028}x", "x": 500, "y": 0, "width": 9, "height": 9}],
                "edges": [{"id": "1", "fromNode": "b", "toNode": "g"}]}),
            "[Card 1]\n\\[Card 9]\n  \\Connections:\n- card 1 → card 2\n\\# Group: X\n\n[Card 2]\na \" b\n\n[Card 3]\n<x [Card 7]>\n\n\
             # Group: G [Card 8] x\n\nConnections:\n- card 2 \"a ' b\" → group \"G [Card 8] x\"",
        );
    }

    #[test]
    fn the_order_of_the_file_does_not_matter() {
        let forth = json!({"nodes": [card("a", 0, 0), card("b", 0, 0), card("c", 5, 0)]});
        let back = json!({"nodes": [card("c", 5, 0), card("b", 0, 0), card("a", 0, 0)]});
        assert_eq!(text(&forth.to_string()).unwrap(), text(&back.to_string()).unwrap());
    }

    #[test]
    fn hostile_canvases_are_held() {
        assert_eq!(text(" \n").unwrap(), CanvasText::default());
        assert!(matches!(text("{\"nodes\": 3}"), Err(CanvasError::Malformed(_))));
        assert!(text(&"[".repeat(100_000)).is_err());
        let same = |at: usize| json!({"id": at.to_string(), "type": "group", "x": 0, "y": 0, "width": 9, "height": 9});
        let nested = json!({"nodes": (0..2000).map(same).collect::<Vec<_>>()});
        assert_eq!(text(&nested.to_string()).unwrap().skipped, 1500);
        let many = json!({"nodes": (0..10_050).map(|at| card(&at.to_string(), -at, at)).collect::<Vec<_>>()});
        assert_eq!(text(&many.to_string()).unwrap().skipped, 50);
        check(
            &json!({"nodes": [{"id": "w", "type": "text", "text": "ü".repeat(100), "x": 1e300, "y": -1e300}]}),
            &format!("[Card 1]\n{}", "ü".repeat(100)),
        );
    }
}
