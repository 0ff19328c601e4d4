//! A preview is what would be sent, and leaves no trace.

use super::*;

/// Sends a turn and gives the bytes of its first request and what the cache served of it.
fn sent(place: &Place, kept: &mut RecordedSession, question: Question, speaker: &mut Script) -> (Vec<u8>, u64) {
    let mut bodies = Vec::new();
    let mut hands = speaker.hands();
    let at = place.now.get();
    let mut each = |event: Event<'_>| {
        if let Event::Request(outgoing) = event {
            bodies.push((outgoing.number, outgoing.body.bytes.clone()));
        }
    };
    // The clock stands still until the request is built, as it does for a preview.
    kept.send(question, speaker, &mut hands, &|| at, &mut each).unwrap();
    let (number, body) = bodies.swap_remove(0);
    let usage = kept.store().ledger(kept.id()).unwrap().into_iter().find(|(request, _)| *request == number).unwrap().1;
    (body, usage.read)
}

#[test]
fn a_preview_is_what_is_sent_next() {
    for layout in Layout::ALL {
        let place = Place::new();
        let mut kept = place.begin(layout);
        let mut speaker = tool_loop();
        for turn in 0..7 {
            if turn == 6 {
                kept.set_mode(Mode::Agent, place.tick()); // two tools join
            }
            if turn == 3 {
                drop(kept);
                kept = place.open("s"); // the prompt before it has to be rendered again
            }
            if turn == 4 {
                kept.tell(Input::Fold, place.tick()).unwrap();
            }
            if turn == 5 {
                place.now.set(place.now.get() + 3_600_000); // the provider has forgotten all of it
            }
            let text = format!("# Garden\n{}", "Prune in March. ".repeat(80 + turn / 2));
            let attached = vec![Version::note("Garden.md", None, &text, Vec::new())];
            let words = format!("What does it say about {turn}?");
            let question = Question { turn: TurnInput { words, attached, ..TurnInput::default() }, ..Question::default() };
            let now = place.tick();
            let before = kept.counts();
            let preview = kept.preview(question.clone(), &mut NoHands, now).unwrap();
            assert_eq!(kept.counts(), before);
            assert_eq!(Hash::of(&preview.body), preview.request.wire_sha256);
            assert_eq!(
                kept.preview(question.clone(), &mut NoHands, now).unwrap().body,
                preview.body,
                "a preview changes nothing"
            );
            let (body, read) = sent(&place, &mut kept, question, &mut speaker);
            assert!(body == preview.body, "turn {turn} in {layout:?}: another body");
            assert_eq!(preview.expected.read.0, read, "turn {turn} in {layout:?}");
            let inspected = inspect(kept.store(), "s", preview.request.request).unwrap();
            assert_eq!(
                serde_json::to_value(&inspected.context).unwrap(),
                serde_json::to_value(&preview.request.context).unwrap()
            );
            assert_eq!((inspected.tokens, inspected.turn), (preview.request.tokens, preview.request.turn));
            place.tick();
        }
        let preview = kept.preview(Question::default(), &mut NoHands, place.now.get() + 3_600_000).unwrap();
        assert_eq!(preview.expected.broke.map(|broke| broke.cause.into_owned()).as_deref(), Some("cache_cold"));
    }
}
