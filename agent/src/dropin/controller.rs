//! `assisted-installer-controller`, which finishes an installation from inside the cluster. It is a command of the full program; success
//! without it would leave the cluster waiting.

use super::Refusal;

/// Whatever it is given.
pub(super) fn refusal() -> Refusal {
    Refusal::Unable(
        "this is the host's program, without the controller, which runs in the cluster and finishes the installation. Use an image of \
         the full program, landfall (landfall image oci --for controller), as the installation's controller image (CONTROLLER_IMAGE \
         of the service, --controller-image of installer and of landfall install)",
    )
}
