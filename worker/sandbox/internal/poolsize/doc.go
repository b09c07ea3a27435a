// Package poolsize says how many sandboxes of each kind should wait for programs, from how often programs
// come and how long it takes to replace what they take. It starts nothing and has no clock: start at
// [Rule.Plan], which is told what is known of each kind; [Arrivals] and [Refills] are how that is known.
//
// # The model
//
// One refiller replaces one sandbox after the other, in a time of mean T and squared coefficient of
// variation cs². Programs come at rates λ, so the refiller is busy for a share ρ = T·Σλ of the time. What
// is missing is a queue before it, whose length falls off by a ratio r = 1/(1+θ), with
// θ = 2(1−ρ)/(ρ(ca²+cs²)). That is exact for random arrivals and exponential times, and a little too
// large for fixed ones. Of what is missing, a share p is of one kind: that again falls off geometrically, with
// θ/p in the place of θ. Of a burst of d programs, each comes after half of the others, on average.
package poolsize
