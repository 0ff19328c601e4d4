//! The conversation: twenty turns of a person with notes at hand. The answers are written down, so that whoever answers, and however the
//! prompt is laid out, the same things are said.

/// One turn.
pub(crate) struct Turn {
    /// A note that the person attaches.
    pub(crate) note: Option<&'static str>,
    /// What the person says.
    pub(crate) words: &'static str,
    /// What stands in the history as the answer.
    pub(crate) answer: &'static str,
}

const fn turn(words: &'static str, answer: &'static str) -> Turn {
    Turn { note: None, words, answer }
}

const fn with(note: &'static str, words: &'static str, answer: &'static str) -> Turn {
    Turn { note: Some(note), words, answer }
}

pub(crate) const TALK: [Turn; 20] = [
    with("Bread", "My last loaf came out flat. What went wrong?", "Your note says that a flat loaf has proved too long."),
    turn("And what would a dense crumb mean?", "An underfed starter, according to your note."),
    with(
        "Sourdough starter",
        "How do I feed it before baking?",
        "One part starter, two parts flour and two parts water, at room temperature the evening before.",
    ),
    turn("How do I know that it is ready?", "It is ready when a spoonful of it floats in water."),
    turn("There is grey liquid on top. Is it dead?", "No, it is only hungry: pour the liquid off and feed it twice."),
    turn(
        "If I mix at eight in the evening, when do I bake?",
        "At seven in the morning, after folding three times and shaping before bed.",
    ),
    with("Compost", "Something else: my heap stays cold. Why?", "It lacks green matter, or it is smaller than a cubic metre."),
    turn("It smells sour now as well.", "Then it is too wet. Add cardboard and turn it at once."),
    turn("Can the bread that went wrong go on it?", "Your note says no cooked food, because it brings rats, so better not."),
    turn("How often should I turn it?", "Every three weeks, and only the heap that is being fed."),
    with("Seeds", "What could I sow in April?", "Chard Bright Lights: it is sown from April to July and stands frost."),
    turn("And the tomatoes?", "Sow them indoors in March and plant them out after 20 May."),
    turn(
        "Are my old bean seeds still good?",
        "Test ten of them on damp paper. Fewer than six after ten days means a new packet.",
    ),
    turn(
        "Should I do anything with the beans before sowing?",
        "Yes, soak the runner beans overnight and sow them in the middle of May.",
    ),
    with(
        "Boiler",
        "The heating is out and shows F28.",
        "There is no gas pressure. Check the valve by the meter, then hold the left knob for five seconds.",
    ),
    turn("The gauge shows 0.8 bar too.", "Fill it to 1.5 bar with the hose under the sink."),
    turn("Whom do I call if that does not help?", "The fitter. The number is on the inside of the cupboard door."),
    turn("When was it last serviced?", "The note only says that it is serviced every October."),
    turn(
        "Back to the bread: how hot is the oven at first?",
        "240 degrees with steam for twenty minutes, then 210 for twenty-five.",
    ),
    turn("And how do I keep the crust crisp?", "Open the door a crack for the last five minutes."),
];
