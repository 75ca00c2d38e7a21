"""All mutants."""

from tests.mutants.applying import APPLYING
from tests.mutants.backing_up import BACKING_UP
from tests.mutants.consensus import CONSENSUS
from tests.mutants.copying import COPYING
from tests.mutants.defining import DEFINING
from tests.mutants.importing import IMPORTING
from tests.mutants.mutant import Mutant
from tests.mutants.running import RUNNING
from tests.mutants.shipping import SHIPPING
from tests.mutants.storage import STORAGE
from tests.mutants.upgrading import UPGRADING

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        *CONSENSUS,
        *STORAGE,
        *APPLYING,
        *IMPORTING,
        *DEFINING,
        *RUNNING,
        *COPYING,
        *SHIPPING,
        *UPGRADING,
        *BACKING_UP,
    )
}
