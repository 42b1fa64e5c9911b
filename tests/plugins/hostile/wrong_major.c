/* The symbol of major 1, the number of another one. */
#define MAJOR 7u
#include "base.h"
