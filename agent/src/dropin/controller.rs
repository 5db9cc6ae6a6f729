//! `assisted-installer-controller`, which finishes an installation from inside the cluster. It does not exist here yet, and
//! success without it would leave the cluster waiting.

use super::Refusal;

/// Whatever it is given.
pub(super) fn refusal() -> Refusal {
    Refusal::Unable(
        "this program has no controller, which would approve the nodes' certificates, report joined nodes, and finish the \
         installation. Use the image of the real one as the installation's controller image (CONTROLLER_IMAGE of the \
         service, --controller-image of installer and of landfall install)",
    )
}
