//! `assisted-installer-controller`: what finishes an installation from inside the cluster. There is none here yet, and to end well
//! without one would leave the cluster waiting.

use super::Refusal;

/// Whatever it is given.
pub(super) fn refusal() -> Refusal {
    Refusal::Unable(
        "there is no controller in this program: it would approve the nodes' certificates, report what has joined, and finish \
         the installation. Run the image of the real one: name it as the installation's controller image (CONTROLLER_IMAGE of \
         the service, --controller-image of installer and of landfall install)",
    )
}
