/* A trained adapter, scaled down until what it costs is within bounds.
 *
 * Owns: the search for the largest share of an adapter with which held-out replay loses no more than
 * is allowed. Between the base (share 0) and the adapter (share 1) the loss on what it was not trained
 * for grows with about the square of the share, what it learned holds longer (Wortsman et al. 2022,
 * weight-space interpolation). Threads: as learn.h says. */
#ifndef KT_LEARN_SHRINK_H
#define KT_LEARN_SHRINK_H

#include "learn/gate.h"

/* Scales the candidate by report->share, 0 < share <= 1, measured on replay that is neither trained
 * nor looked at by the gate: half of the rise that the gate allows. KT_E_CANCELLED, KT_E_NOMEM. */
kt_status kt__shrink(kt__learner *learner, const kt__split *split,
                     const kt__learn_settings *settings, kt__factors *candidate,
                     kt__learn_report *report, kt_error *err) KT_CHECKED;

#endif
