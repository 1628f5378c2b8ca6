//! Types that files and JSON have as text.

/// Whether a switch, a port or a rule can be called this: names stand in file names, metric labels
/// and command lines.
pub fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=32).contains(&name.len()) && name.chars().all(good) && !name.starts_with(['-', '.'])
}

/// Serde by text: `Display` writes it, `FromStr` reads it.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// The JSON Schema of a type, written out.
macro_rules! json_schema {
    ($type:ident, $schema:tt) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

/// An enum without fields whose variants have names: all of them in `ALL`, each by `name`.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $type:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $type {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in files, reports, JSON and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

pub(crate) use {json_schema, named, serde_as_text};
