// The page that asks for the token: translates it, and keeps the query of the address for after the login.

import { translate } from "./words.js";

document.querySelector("form").action = `login${location.search}`;
translate();
