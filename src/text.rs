//! Types that files and JSON have as text.

/// Whether a switch, a port or a rule can be called this: names stand in file names, metric labels
/// and command lines.
pub fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=32).contains(&name.len()) && name.chars().all(good) && !name.starts_with(['-', '.'])
}

/// A number with a unit and a factor of a thousand before it: `1.5Gbps` is 1 500 000 000 of the unit
/// `bps`. No more than nine decimals.
pub fn scaled(text: &str, unit: &str) -> Option<u64> {
    let number = text.strip_suffix(unit)?;
    let (number, scale) = match number.char_indices().last()? {
        (at, 'k' | 'K') => (&number[..at], 1_000),
        (at, 'M') => (&number[..at], 1_000_000),
        (at, 'G') => (&number[..at], 1_000_000_000),
        _ => (number, 1u64),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let (whole, decimals): (u64, u64) = (whole.parse().ok()?, format!("{decimals:0<9}").parse().ok()?);
    whole.checked_mul(scale)?.checked_add((u128::from(decimals) * u128::from(scale) / 1_000_000_000) as u64)
}

/// A share: `1%` or `0.01`.
pub fn share(text: &str) -> Option<f64> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent.trim_end(), 100.0));
    number.parse().ok().map(|number: f64| number / whole).filter(|share| (0.0..=1.0).contains(share))
}

/// A rate, as [`share`] reads it, but not `1` alone: some write it for 1 % and others for all.
pub fn rate(text: &str) -> Option<f64> {
    share(text).filter(|_| text != "1")
}

/// A number as [`scaled`] reads it, with the largest factor that leaves it whole.
pub fn short(n: u64) -> String {
    match n {
        n if n % 1_000_000_000 == 0 => format!("{}G", n / 1_000_000_000),
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
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

/// A text as a value in the query of a URL.
pub fn url_encoded(text: &str) -> String {
    let byte = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.as_bytes().iter().map(byte).collect()
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
