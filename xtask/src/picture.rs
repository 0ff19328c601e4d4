//! The picture in the README: one conversation in both layouts, a bar a request, drawn from what `foreword simulate` prints.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::cargo::Cargo;

const SCENARIO: &str = "examples/scenarios/chat-over-garden-notes.json";
const PICTURE: &str = "docs/prompt.svg";

/// Layers in the order in which they are sent, with a name for people and a colour.
const LAYERS: [(&str, &str, &str); 5] = [
    ("L1_SYSTEM", "L1 system", "#3b6fb5"),
    ("L2_LIBRARY", "L2 library", "#3aa0a0"),
    ("L4_HISTORY", "L4 history", "#5a9e4b"),
    ("L3_TURN", "L3 this turn", "#d9a13b"),
    ("L5_USER", "L5 the words", "#b0563c"),
];

const PANEL: f64 = 380.0;
const BARS: f64 = 200.0;
const TOP: f64 = 60.0;

/// Draws the picture anew.
pub(crate) fn run(cargo: &Cargo) -> Result<()> {
    let args = ["run", "--quiet", "--release", "--package", "foreword-cli", "--", "simulate", "--compare", "--json", SCENARIO];
    let output = cargo.command(args).output().context("foreword simulate could not be started")?;
    ensure!(output.status.success(), "foreword simulate failed: {}", String::from_utf8_lossy(&output.stderr));
    let reports = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(serde_json::from_slice);
    let reports: Vec<Value> = reports.collect::<Result<_, _>>().context("foreword simulate printed what is no report")?;
    let file = Path::new(PICTURE);
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(file, draw(&reports)?).with_context(|| format!("{PICTURE} cannot be written"))?;
    eprintln!("{PICTURE} is drawn from {SCENARIO}");
    Ok(())
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

fn requests(report: &Value) -> &[Value] {
    report["requests"].as_array().map_or(&[], Vec::as_slice)
}

fn draw(reports: &[Value]) -> Result<String> {
    let width = PANEL * reports.len() as f64 + 40.0;
    let largest = reports.iter().flat_map(requests).map(|request| number(request, "/tokens/total")).fold(1.0, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} 330\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (at, report) in reports.iter().enumerate() {
        panel(&mut svg, report, 20.0 + PANEL * at as f64, largest)?;
    }
    let mut x = 20.0;
    for (_, name, colour) in LAYERS {
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"300\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"310\">{name}</text>",
            x + 17.0
        )?;
        x += 105.0;
    }
    writeln!(
        svg,
        "<rect x=\"{x}\" y=\"300\" width=\"12\" height=\"12\" fill=\"#ffffff\" fill-opacity=\"0.55\" stroke=\"#999\"/><text x=\"{}\" y=\"310\">pale: read from the cache</text>",
        x + 17.0
    )?;
    svg += "</svg>\n";
    Ok(svg)
}

fn panel(svg: &mut String, report: &Value, left: f64, largest: f64) -> Result<()> {
    let layout = report["layout"].as_str().unwrap_or_default();
    let share = number(report, "/totals/read") / number(report, "/totals/input_tokens").max(1.0) * 100.0;
    let (cost, uncached) = (number(report, "/totals/cost"), number(report, "/totals/cost_uncached"));
    writeln!(svg, "<text x=\"{left}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{layout}</text>")?;
    writeln!(
        svg,
        "<text x=\"{left}\" y=\"42\" fill=\"#555\">{share:.0} % from the cache, ${cost:.3} (without a cache ${uncached:.3})</text>"
    )?;
    let step = (PANEL - 30.0) / requests(report).len().max(1) as f64;
    for (at, request) in requests(report).iter().enumerate() {
        let x = left + step * at as f64;
        let bar = step * 0.72;
        // From the bottom up in the order of the prompt, so that what is cached is the foot of the bar.
        let mut y = TOP + BARS;
        for (id, _, colour) in LAYERS {
            let height = number(request, &format!("/tokens/by_layer/{id}")) / largest * BARS;
            y -= height;
            writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>")?;
        }
        let read = number(request, "/cache/read") / largest * BARS;
        writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{read:.1}\" fill=\"#ffffff\" fill-opacity=\"0.55\"/>",
            TOP + BARS - read
        )?;
        if request.pointer("/cache/break").is_some_and(Value::is_object) {
            writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#c0392b\" text-anchor=\"middle\">break</text>",
                x + bar / 2.0,
                y - 4.0
            )?;
        }
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" fill=\"#555\" text-anchor=\"middle\">{}</text>",
            x + bar / 2.0,
            TOP + BARS + 16.0,
            at + 1
        )?;
    }
    Ok(())
}
