"""The status page at `/`: what a person wants to know at a glance, live, from one origin and without any network.

One task makes one picture for all who look. Read in this order:

1. `watchdog` what is asked of the watchdog, only while somebody looks;
2. `live`     what the service knows at this moment, `history` its last minutes, `requests` the last ones (all pure);
3. `feed`     the one producer, and the pages that follow it;
4. `files`    the page itself, from `static`: HTML, CSS and JavaScript modules, as they are;
5. `routes`   the paths, and who may use them.
"""
