//! What the models here have in common: products of matrices, what is done between them, and threads that work on one thing together.

pub(crate) mod aligned;
pub(crate) mod matmul;
pub(crate) mod pointwise;
pub(crate) mod team;

/// Each set of instructions that this machine has.
#[cfg(test)]
pub(crate) fn arches() -> Vec<pulp::Arch> {
    use pulp::Arch;
    let mut arches = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        arches.extend(pulp::x86::V3::try_new().map(Arch::V3));
        arches.extend(pulp::x86::V4::try_new().map(Arch::V4));
    }
    #[cfg(not(target_arch = "x86_64"))]
    arches.push(Arch::new());
    arches
}
