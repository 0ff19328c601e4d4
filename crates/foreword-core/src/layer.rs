//! The five layers of a request.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The layers of a request, from the most stable to the most volatile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerId {
    /// L1: system prompt, memory, project prompt and context, rules.
    L1,
    /// L2: the context library.
    L2,
    /// L3: context of this turn.
    L3,
    /// L4: the history (earlier messages).
    L4,
    /// L5: the user's message.
    L5,
}

impl LayerId {
    /// All layers, in order.
    pub const ALL: [Self; 5] = [Self::L1, Self::L2, Self::L3, Self::L4, Self::L5];

    /// The name in stored data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::L1 => "L1_SYSTEM",
            Self::L2 => "L2_LIBRARY",
            Self::L3 => "L3_TURN",
            Self::L4 => "L4_HISTORY",
            Self::L5 => "L5_USER",
        }
    }

    /// The index in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Serialize for LayerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for LayerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let layer = Self::ALL.into_iter().find(|layer| layer.as_str() == text);
        layer.ok_or_else(|| de::Error::custom(format!("{text:?} is not a layer")))
    }
}
