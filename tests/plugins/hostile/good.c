/* Keeps every rule. */
#include "base.h"
