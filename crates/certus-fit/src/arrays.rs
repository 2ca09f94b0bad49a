//! `arrays.safetensors`: the Gaussian, and named vectors that belong to it, to the bit.
//!
//! Tensors of type F64: `mean` (d); `factor`, for a dense factor C with shape (d, d) and C_ij at (i, j), for a pattern
//! the panels of its blocks one after the other; `vector.NAME` for everything else. The metadata have one key,
//! `certus`, whose JSON value says which family the factor belongs to and, for a pattern, the sizes and parents of its
//! blocks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use certus::factor::{Lower, Pattern, Symmetric};
use certus::{Factor, Gaussian, Tree};
use safetensors::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};

use crate::directory::{ARRAYS, FitDirectory};
use crate::error::{Error, Mismatch};

/// The only version so far.
const VERSION: u32 = 1;
/// What the names of extra vectors start with.
const VECTOR: &str = "vector.";

/// A Gaussian and the vectors that belong to it (centres and scales of columns, say).
#[derive(Clone, Debug, PartialEq)]
pub struct Arrays {
    /// The Gaussian.
    pub gaussian: Gaussian,
    /// Finite vectors by name.
    pub vectors: BTreeMap<String, Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    version: u32,
    family: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sizes: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    parents: Option<Vec<Option<usize>>>,
}

/// Little-endian numbers with a shape.
struct Tensor {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn new(shape: Vec<usize>, values: impl Iterator<Item = f64>) -> Self {
        Self { shape, bytes: values.flat_map(f64::to_le_bytes).collect() }
    }
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        Dtype::F64
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

impl Arrays {
    /// The bytes of the file, the same for the same arrays.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let d = self.gaussian.dim();
        if let Some((name, _)) = self.vectors.iter().find(|(_, v)| v.iter().any(|x| !x.is_finite())) {
            return Err(Mismatch::NotFinite { name: name.clone() }.into());
        }
        let factor = self.gaussian.factor();
        let mut shape =
            Shape { version: VERSION, family: factor.family().name().into(), sizes: None, parents: None };
        let values = factor.values();
        let factor = match factor {
            Factor::Pattern(pattern) => {
                let nodes = pattern.tree().nodes();
                shape.sizes = Some(nodes.iter().map(|n| n.size).collect());
                shape.parents = Some(nodes.iter().map(|n| n.parent).collect());
                Tensor::new(vec![values.len()], values.iter().copied())
            }
            Factor::Lower(_) | Factor::Symmetric(_) => {
                Tensor::new(vec![d, d], (0..d * d).map(|k| values[(k % d) * d + k / d]))
            }
        };
        let mean = Tensor::new(vec![d], self.gaussian.mean().iter().copied());
        let mut tensors = vec![("factor".to_string(), factor), ("mean".to_string(), mean)];
        for (name, values) in &self.vectors {
            tensors
                .push((format!("{VECTOR}{name}"), Tensor::new(vec![values.len()], values.iter().copied())));
        }
        let shape = serde_json::to_string(&shape).expect("numbers and words");
        // one key only: the order of several would not be the same twice
        let metadata = [("certus".to_string(), shape)].into_iter().collect();
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        Ok(safetensors::serialize(named, Some(metadata)).map_err(Mismatch::from)?)
    }

    /// Reads what [`encode`](Self::encode) made. For anything else the error is a sentence that says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let words = |e: safetensors::SafeTensorError| e.to_string();
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(words)?;
        let file = SafeTensors::deserialize(bytes).map_err(words)?;
        let shape = metadata
            .metadata()
            .as_ref()
            .and_then(|m| m.get("certus"))
            .ok_or("it has no metadata of certus")?;
        let shape: Shape = serde_json::from_str(shape).map_err(|e| format!("its metadata: {e}"))?;
        if shape.version != VERSION {
            return Err(format!(
                "it has version {}, but this program reads version {VERSION}",
                shape.version
            ));
        }
        let mean = numbers(&file, "mean", None)?;
        let factor = factor(&file, mean.len(), shape)?;
        let gaussian = Gaussian::new(mean, factor).map_err(|e| e.to_string())?;
        let mut vectors = BTreeMap::new();
        for name in file.names() {
            match name.strip_prefix(VECTOR) {
                Some(short) => {
                    vectors.insert(short.to_string(), numbers(&file, name, None)?);
                }
                None if name == "mean" || name == "factor" => {}
                None => return Err(format!("unknown tensor {name}")),
            }
        }
        Ok(Self { gaussian, vectors })
    }

    /// Writes `arrays.safetensors`.
    pub fn write(&self, directory: &FitDirectory) -> Result<(), Error> {
        directory.write(ARRAYS, &self.encode()?)
    }

    /// Reads `arrays.safetensors`.
    pub fn read(directory: &FitDirectory) -> Result<Self, Error> {
        Self::decode(&directory.read(ARRAYS)?).map_err(|e| Error::damaged(&directory.file(ARRAYS), e))
    }
}

/// A tensor's finite numbers; without a shape, any vector will do.
fn numbers(file: &SafeTensors<'_>, name: &str, shape: Option<&[usize]>) -> Result<Vec<f64>, String> {
    let tensor = file.tensor(name).map_err(|e| e.to_string())?;
    if tensor.dtype() != Dtype::F64 {
        return Err(format!("{name} has numbers of type {}, but F64 is required", tensor.dtype()));
    }
    let found = tensor.shape();
    let right = shape.map_or(found.len() == 1, |shape| shape == found);
    let (words, rest) = tensor.data().as_chunks::<8>();
    if !right || !rest.is_empty() {
        return Err(format!("{name} has the unexpected shape {found:?}"));
    }
    let values: Vec<f64> = words.iter().map(|word| f64::from_le_bytes(*word)).collect();
    match values.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(format!("entry {i} of {name} is {}", values[i])),
        None => Ok(values),
    }
}

fn factor(file: &SafeTensors<'_>, d: usize, shape: Shape) -> Result<Factor, String> {
    if d == 0 {
        return Err("the mean has no entries".into());
    }
    let dense = |file| {
        let rows = numbers(file, "factor", Some(&[d, d]))?;
        Ok::<_, String>((0..d * d).map(|k| rows[(k % d) * d + k / d]).collect::<Vec<f64>>())
    };
    let words = |e: certus::Error| e.to_string();
    match (shape.family.as_str(), shape.sizes, shape.parents) {
        ("lower-triangular", None, None) => Lower::new(d, dense(file)?).map(Factor::Lower).map_err(words),
        ("symmetric", None, None) => Symmetric::new(d, dense(file)?).map(Factor::Symmetric).map_err(words),
        ("pattern", Some(sizes), Some(parents)) => {
            // checked before the tree adds them up
            let total = sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size));
            if total != Some(d) {
                return Err(format!("the sizes of the blocks do not add up to {d}"));
            }
            let tree = Tree::new(&sizes, &parents).map_err(words)?;
            let values = numbers(file, "factor", Some(&[tree.stored()]))?;
            Pattern::new(Arc::new(tree), values).map(Factor::Pattern).map_err(words)
        }
        (family, ..) => Err(format!("\"{family}\" with these blocks is not a family of factors")),
    }
}
