package feedline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import feedline.api.PostsApi;
import feedline.api.TimelineApi;
import feedline.api.UsersApi;
import feedline.client.ApiClient;
import feedline.client.ApiException;
import feedline.model.Media;
import feedline.model.MediaKind;
import feedline.model.Post;
import feedline.model.PostDraft;
import feedline.model.PostEdit;
import feedline.model.ProfileUpdate;
import feedline.model.SinglePost;
import feedline.model.TimelinePage;
import feedline.model.Visibility;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The session of the README with a generated client. */
class GeneratedClientTest {
    private static ApiClient client(String token) {
        ApiClient client = new ApiClient();
        client.setBasePath(System.getProperty("feedline.url"));
        client.setBearerToken(System.getProperty(token));
        return client;
    }

    private static SinglePost read(PostsApi posts, long id) throws ApiException {
        return posts.postsGet(id, null, null, null);
    }

    @Test
    void theSessionOfTheReadmeWorks() throws ApiException {
        ApiClient cy = client("feedline.cy");
        ApiClient dan = client("feedline.dan");
        PostsApi posts = new PostsApi(dan);

        PostDraft draft = new PostDraft()
                .text("Hello from Dan. #rust")
                .visibility(new Visibility("followers"))
                .addMediaItem(new Media().type(MediaKind.IMAGE).url("https://pictures.example/harbour.jpg"));
        Post post = posts.postsCreate(null, null, null, draft);
        assertEquals("dan", post.getAuthor());
        assertEquals(List.of("rust"), post.getTopics());
        new UsersApi(cy).usersFollow("dan", null, null, null);
        TimelinePage page = new TimelineApi(cy).timelineRead(null, 10L, null, null, null);
        assertEquals(1, page.getItems().size());
        assertEquals(post.getId(), page.getItems().get(0).getId());
        assertEquals("dan", page.getPeople().get("dan").getName());

        // A client that fills in the defaults changes nothing.
        SinglePost before = read(posts, post.getId());
        posts.postsEdit(post.getId(), null, null, null, new PostEdit());
        SinglePost after = read(posts, post.getId());
        after.setEditedAt(null);
        assertEquals(before, after);
        UsersApi users = new UsersApi(dan);
        users.usersUpdate(null, null, null, new ProfileUpdate().bio("Writes Rust."));
        assertEquals("Writes Rust.", users.usersUpdate(null, null, null, new ProfileUpdate()).getBio());

        ApiException missing = assertThrows(ApiException.class, () -> read(posts, 1));
        assertEquals(404, missing.getCode());
        assertTrue(missing.getResponseBody().contains("not_found"), missing.getResponseBody());
    }
}
