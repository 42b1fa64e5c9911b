/* A library, and no plugin. */
int fmail_plugin(void) { return 1; }
