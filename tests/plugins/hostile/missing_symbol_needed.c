/* Needs a function that nobody has: must fail when it is loaded, not when it is called. */
#include "base.h"
extern void nobody_has_this(void);
void needs(void) { nobody_has_this(); }
