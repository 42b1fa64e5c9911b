/* Relays call the host, so they must take answers. */
#define KIND "relay"
#include "base.h"
